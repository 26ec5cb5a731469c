"""All checks of one pipeline: facts are gathered once, each check is a pure function over them."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType

from cutover.clock import Clock, SystemClock
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import CutoverError, DefinitionError
from cutover.events import log
from cutover.lake.epochs import delivery
from cutover.lake.tables.run_memory import read_once
from cutover.reconcile.verify.facts import gather, rows
from cutover.reconcile.verify.facts.facts import LogCounts, Prefix, VerifyFacts
from cutover.reconcile.verify.facts.source import Source, VerifyRequest, open_source
from cutover.reconcile.verify.invariants import (
    n1_completeness,
    n2_single_effect,
    n3_contiguity,
    n4_prefix,
    n5_path_agreement,
    n6_monotonicity,
    n8_determinism,
    n9_sole_writer,
)
from cutover.reconcile.verify.model import Checked, CheckState, Unknown, Verification, Violation, cap_violations
from cutover.settings import Settings

Check = Callable[[VerifyFacts], Iterable[Violation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One check: its module has TITLE, `check`, `describe_coverage`, and `notes` where something may be left out."""

    name: str
    module: ModuleType
    needs: tuple[str, ...]  # parts of the facts; without one of them it cannot be told
    takes: tuple[str, ...] = ()  # parts that it looks at where they can be had


CHECKS: Mapping[str, Listed] = {
    listed.name: listed
    for listed in (
        Listed(name="N1", module=n1_completeness, needs=("books", "log"), takes=("batch_ledger",)),
        Listed(name="N2", module=n2_single_effect, needs=("commits",)),
        Listed(name="N3", module=n3_contiguity, needs=()),
        Listed(name="N4", module=n4_prefix, needs=("prefix",)),
        Listed(name="N5", module=n5_path_agreement, needs=("paths",)),
        Listed(name="N6", module=n6_monotonicity, needs=("reopened",), takes=("log", "finals")),
        Listed(name="N8", module=n8_determinism, needs=("twice",)),
        Listed(name="N9", module=n9_sole_writer, needs=("foreign",)),
    )
}

WAIVED = ("N1", "N2", "N4")
"""Checks that hold only where data and offsets are one commit."""


def verify(
    settings: Settings,
    pipeline: Pipeline,
    *,
    only: Sequence[str] = (),
    every: bool = False,
    seed: int | None = None,
    clock: Clock | None = None,
) -> Verification:
    """Judge every check of a pipeline's current stream version. Reads only, also while a driver works.

    Args:
        settings: Where lake and log are.
        pipeline: The definition.
        only: Names of the checks to judge; none: all.
        every: Recompute and count all that the log still holds, not a sample.
        seed: Of the sample; None: another one each time.
        clock: The wall clock.

    Returns:
        What each check has come to. Where no epoch log can be read, none can be judged, and `error` says why.

    Raises:
        DefinitionError: A name in `only` is none of a check.
    """
    clock, names = clock or SystemClock(), choose_checks(only)
    began = clock.monotonic()
    drawn = secrets.randbelow(1_000_000) if seed is None else seed
    request = VerifyRequest(now=clock.now(), seed=drawn, every=every)
    checks: dict[str, Checked] = {}
    try:
        with read_once():
            source, facts = open_source(settings, pipeline, request)
        with source.connection, read_once():
            waived = _waive_checks(source, facts)
            for name in names:
                if name in waived:
                    checks[name] = waived[name]
                else:
                    facts, checks[name] = _judge_check(CHECKS[name], source, facts, clock)
    except CutoverError as error:
        checks = {name: _judge_unread(settings, pipeline, name, error) for name in names}
        return _log_verification(_make_unreadable(pipeline, checks, error, round(clock.monotonic() - began, 3)))
    return _log_verification(_verification(facts, checks, round(clock.monotonic() - began, 3)))


def _waive_checks(source: Source, facts: VerifyFacts) -> Mapping[str, Checked]:
    """Return the checks that a delivery other than exactly once does not promise, with what it doubled or lost."""
    modes = sorted({record.delivery for record in facts.records} - {delivery.EXACTLY_ONCE})
    if not modes:
        return {}
    faults = delivery.find_delivery_faults(facts.records, delivery.attempts(source.log, facts.records))
    why = f"Delivery is {' and '.join(modes)}: epochs may come twice or never."
    return {
        name: Checked(
            name=name,
            title=CHECKS[name].module.TITLE,
            state=CheckState.WAIVED,
            why=why,
            looked_at=f"{len(facts.records):,} epochs: {len(faults.doubled):,} doubled, {len(faults.lost):,} lost",
            notes=faults.sentences if name == WAIVED[0] else (),
        )
        for name in WAIVED
    }


def choose_checks(only: Sequence[str]) -> tuple[str, ...]:
    """Return the checks to judge, in their order.

    Raises:
        DefinitionError: A name is none of a check.
    """
    wrong = [name for name in only if name not in CHECKS]
    if wrong:
        msg = f"`--only`: expected some of {', '.join(CHECKS)}, got `{wrong[0][:20]}`."
        raise DefinitionError(msg)
    return tuple(name for name in CHECKS if not only or name in only)


def _judge_check(listed: Listed, source: Source, facts: VerifyFacts, clock: Clock) -> tuple[VerifyFacts, Checked]:
    began = clock.monotonic()
    for part in (*listed.needs, *listed.takes):
        facts = gather.with_part(source, facts, part)
    module = listed.module
    violations = tuple(module.check(facts))
    parts = [getattr(facts, name) for name in listed.needs]
    absent = [part.why for part in parts if isinstance(part, Unknown)]
    lost = [f"{part.lost}." for part in parts if isinstance(part, LogCounts | Prefix) and part.lost]
    state = CheckState.VIOLATED if violations else CheckState.NOT_PROVABLE if absent or lost else CheckState.HELD
    checked = Checked(
        name=listed.name,
        title=module.TITLE,
        state=state,
        why=" ".join(dict.fromkeys([*absent, *lost])),
        runbook="LogDataLost" if lost else None,
        looked_at=module.describe_coverage(facts),
        notes=tuple(module.notes(facts)) if hasattr(module, "notes") else (),
        violations=violations,
        seconds=round(clock.monotonic() - began, 3),
    )
    return facts, checked


def _verification(facts: VerifyFacts, checks: Mapping[str, Checked], seconds: float) -> Verification:
    verification = Verification(
        pipeline=facts.pipeline.name,
        checks=checks,
        epoch=facts.records[-1].epoch if facts.records else None,
        table_version=facts.table_version,
        seconds=seconds,
    )
    runbooks = (checked.runbook for checked in checks.values())
    runbook = "InvariantBroken" if verification.violations else next(filter(None, runbooks), None)
    return replace(verification, runbook=runbook)


def _judge_unread(settings: Settings, pipeline: Pipeline, name: str, error: CutoverError) -> Checked:
    """Judge a check without the epoch log: what others changed may be known all the same, and be why it has none."""
    why = error.text.split("\n", maxsplit=1)[0]
    foreign: tuple[str, ...] = ()
    if name == "N9":
        with suppress(CutoverError):
            foreign = rows.list_foreign(settings, pipeline)
    return Checked(
        name=name,
        title=CHECKS[name].module.TITLE,
        state=CheckState.VIOLATED if foreign else CheckState.NOT_PROVABLE,
        why="" if foreign else why,
        violations=tuple(cap_violations(name, foreign)),
    )


def _make_unreadable(
    pipeline: Pipeline, checks: Mapping[str, Checked], error: CutoverError, seconds: float
) -> Verification:
    """Return what is known where the epoch log cannot be read."""
    return Verification(pipeline=pipeline.name, checks=checks, error=error.text, runbook=error.runbook, seconds=seconds)


def _log_verification(verification: Verification) -> Verification:
    log.info(
        "verified",
        pipeline=verification.pipeline,
        exit_code=verification.exit_code,
        epoch=verification.epoch,
        checks={name: checked.state.value for name, checked in verification.checks.items()},
        violations=len(verification.violations),
        runbook=verification.runbook,
        seconds=verification.seconds,
    )
    return verification
