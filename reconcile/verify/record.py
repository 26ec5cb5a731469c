"""Run of all checks of one pipeline, and the history and metrics of their results.

Facts are gathered once, and each check is a pure function over them. A violation stays open until a later run evaluates
that check and it holds. A sampled run may miss what another run has found, so a violation of a sampled check is closed
only by an exhaustive run (`cutover verify P --all`). Metrics are the state of each check and the number of violations.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from cutover import metrics
from cutover.clock import Clock, SystemClock
from cutover.counts import count_noun
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.engine.schema_store import bind_schemas
from cutover.errors import CutoverError, DefinitionError, LakeError
from cutover.events import log
from cutover.lake.control import versions
from cutover.lake.epochs import delivery
from cutover.lake.journal import Journal
from cutover.lake.tables.checksums import read_once
from cutover.metrics import MetricSample
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.journal_rows import VerificationRow
from cutover.reconcile.verify.facts import recompute, rows
from cutover.reconcile.verify.facts.facts import (
    CheckResult,
    CheckState,
    Invariant,
    LogCounts,
    Prefix,
    Unknown,
    Verification,
    VerifyFacts,
    cap_violations,
)
from cutover.reconcile.verify.facts.source import Source, VerifyRequest, open_source
from cutover.reconcile.verify.invariants import epochs, published_results

CHECKS: Mapping[str, Invariant] = {
    invariant.name: invariant
    for invariant in (
        epochs.COMPLETENESS,
        epochs.SINGLE_EFFECT,
        epochs.CONTIGUITY,
        published_results.PREFIX,
        published_results.PATH_AGREEMENT,
        published_results.MONOTONICITY,
        published_results.DETERMINISM,
        published_results.SOLE_WRITER,
    )
}

WAIVED = ("N1", "N2", "N4")
"""Checks that hold only if data and offsets are committed together."""


class VerifyOptions(TypedDict, total=False):
    """Options of a verification."""

    only: Sequence[str]  # names of the checks to evaluate; empty: all
    exhaustive: bool  # recompute and count everything that the log retains, not a sample
    seed: int | None  # of the sample; None: a random one
    clock: Clock | None  # the wall clock


def verify_pipeline(lake: PipelineLake, **options: Unpack[VerifyOptions]) -> Verification:
    """Evaluate the checks of a pipeline's current stream version. It only reads, and a driver may run at the same time.

    Args:
        lake: Pipeline to verify.
        options: Which checks, and how.

    Returns:
        A result for each check. If the epoch log cannot be read, no check is provable and `error` has the reason.

    Raises:
        DefinitionError: A name in `only` is not the name of a check.
    """
    clock, names = options.get("clock") or SystemClock(), choose_checks(options.get("only", ()))
    bind_schemas(lake.settings)
    started, seed = clock.monotonic(), options.get("seed")
    sample_seed = secrets.randbelow(1_000_000) if seed is None else seed
    request = VerifyRequest(now=clock.now(), seed=sample_seed, exhaustive=options.get("exhaustive", False))
    checks: dict[str, CheckResult] = {}
    try:
        with read_once():
            source, facts = open_source(lake, request)
        with source.connection, read_once():
            waived = _waive_checks(source, facts)
            for name in names:
                if name in waived:
                    checks[name] = waived[name]
                else:
                    facts, checks[name] = _evaluate_check(CHECKS[name], source, facts, clock)
    except CutoverError as error:
        checks = {name: _evaluate_without_log(lake, name, error) for name in names}
        return _log_verification(_build_unreadable(lake.pipeline, checks, error, round(clock.monotonic() - started, 3)))
    return _log_verification(_build_verification(facts, checks, round(clock.monotonic() - started, 3)))


def _waive_checks(source: Source, facts: VerifyFacts) -> Mapping[str, CheckResult]:
    """Waive the checks that a delivery other than exactly-once does not guarantee, with its duplicates and losses."""
    modes = sorted({record.delivery for record in facts.records} - {delivery.EXACTLY_ONCE})
    if not modes:
        return {}
    faults = delivery.find_delivery_faults(facts.records, delivery.read_attempts(source.log, facts.records))
    reason = f"Delivery is {' and '.join(modes)}: an epoch may be delivered twice or not at all."
    return {
        name: CheckResult(
            name=name,
            title=CHECKS[name].title,
            state=CheckState.WAIVED,
            reason=reason,
            coverage=(
                f"{count_noun(len(facts.records), 'epoch')}: {len(faults.doubled):,} doubled, {len(faults.lost):,} lost"
            ),
            notes=faults.sentences if name == WAIVED[0] else (),
        )
        for name in WAIVED
    }


def choose_checks(only: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the checks to evaluate, in their order.

    Raises:
        DefinitionError: A name is not the name of a check.
    """
    unknown_names = [name for name in only if name not in CHECKS]
    if unknown_names:
        msg = f"`--only`: expected some of {', '.join(CHECKS)}, got `{unknown_names[0][:20]}`."
        raise DefinitionError(msg)
    return tuple(name for name in CHECKS if not only or name in only)


def _evaluate_check(
    invariant: Invariant, source: Source, facts: VerifyFacts, clock: Clock
) -> tuple[VerifyFacts, CheckResult]:
    started = clock.monotonic()
    for part in (*invariant.needs, *invariant.uses):
        facts = recompute.with_part(source, facts, part)
    violations = tuple(invariant.check(facts))
    parts = [getattr(facts, name) for name in invariant.needs]
    reasons = [part.reason for part in parts if isinstance(part, Unknown)]
    losses = [f"{part.lost_records}." for part in parts if isinstance(part, LogCounts | Prefix) and part.lost_records]
    state = CheckState.VIOLATED if violations else CheckState.NOT_PROVABLE if reasons or losses else CheckState.HELD
    result = CheckResult(
        name=invariant.name,
        title=invariant.title,
        state=state,
        reason=" ".join(dict.fromkeys([*reasons, *losses])),
        runbook="LogDataLost" if losses else None,
        coverage=invariant.describe_coverage(facts),
        notes=tuple(invariant.list_notes(facts)),
        violations=violations,
        seconds=round(clock.monotonic() - started, 3),
    )
    return facts, result


def _build_verification(facts: VerifyFacts, checks: Mapping[str, CheckResult], seconds: float) -> Verification:
    verification = Verification(
        pipeline=facts.pipeline.name,
        checks=checks,
        epoch=facts.records[-1].epoch if facts.records else None,
        table_version=facts.table_version,
        seconds=seconds,
    )
    runbooks = (result.runbook for result in checks.values())
    runbook = "InvariantBroken" if verification.violations else next(filter(None, runbooks), None)
    return replace(verification, runbook=runbook)


def _evaluate_without_log(lake: PipelineLake, name: str, error: CutoverError) -> CheckResult:
    """Evaluate a check without the epoch log: changes by other writers may still be known, and may explain its loss."""
    reason = error.text.split("\n", maxsplit=1)[0]
    changes: tuple[str, ...] = ()
    if name == "N9":
        with suppress(CutoverError):
            changes = rows.list_foreign(lake)
    return CheckResult(
        name=name,
        title=CHECKS[name].title,
        state=CheckState.VIOLATED if changes else CheckState.NOT_PROVABLE,
        reason="" if changes else reason,
        violations=tuple(cap_violations(name, changes)),
    )


def _build_unreadable(
    pipeline: Pipeline, checks: Mapping[str, CheckResult], error: CutoverError, seconds: float
) -> Verification:
    """Build the verification of a pipeline whose epoch log cannot be read."""
    return Verification(pipeline=pipeline.name, checks=checks, error=error.text, runbook=error.runbook, seconds=seconds)


def _log_verification(verification: Verification) -> Verification:
    log.info(
        "verified",
        pipeline=verification.pipeline,
        exit_code=verification.exit_code,
        epoch=verification.epoch,
        checks={name: result.state.value for name, result in verification.checks.items()},
        violations=len(verification.violations),
        runbook=verification.runbook,
        seconds=verification.seconds,
    )
    return verification


SAMPLED = frozenset({"N1", "N4", "N6"})
"""Checks that cover only a part of the log unless the run is exhaustive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenViolation:
    """Violation that no later run has closed."""

    check: str
    text: str
    epoch: int  # newest epoch that the run checked


def list_check_samples(pipeline: Pipeline, verification: Verification) -> Iterator[MetricSample]:
    """Yield a sample for each check and state; if no check could be evaluated, no state is 1."""
    for name, result in verification.checks.items():
        for state in CheckState:
            yield MetricSample("cutover_verify_check", (pipeline.name, name, str(state)), float(state is result.state))
    yield MetricSample("cutover_verify_violations", (pipeline.name,), len(verification.violations))


@metrics.write_metrics("verify", metrics.describe_samples(list_check_samples))
def verify_and_record(lake: PipelineLake, **options: Unpack[VerifyOptions]) -> Verification:
    """Evaluate the checks and record their results, unless no check could be evaluated.

    If the lake cannot be written, a warning is logged and the results are returned all the same.

    Raises:
        DefinitionError: A name in `only` is not the name of a check.
    """
    options["clock"] = clock = options.get("clock") or SystemClock()
    verification = verify_pipeline(lake, **options)
    if verification.error is None:
        try:
            Journal(lake.settings, lake.name, VerificationRow).append(
                _make_row(lake, verification, clock, exhaustive=options.get("exhaustive", False))
            )
        except (LakeError, OSError) as error:
            log.warning("checks_not_recorded", pipeline=lake.name, error=str(error))
    return verification


def list_open_violations(lake: PipelineLake) -> tuple[OpenViolation, ...]:
    """List the open violations of the stream version in service.

    Raises:
        LakeError: The record of the checks cannot be read.
    """
    version = versions.find_current_version(lake)
    rows = Journal(lake.settings, lake.name, VerificationRow).read()
    number = None if version is None else version.number
    identity = (result_fingerprint(lake.pipeline), number)
    return fold_violations(row for row in rows if (row.result_fingerprint, row.stream_version) == identity)


def fold_violations(rows: Iterable[VerificationRow]) -> tuple[OpenViolation, ...]:
    """Fold rows of `verifications`, in their order, into the open violations, at most one for each check."""
    open_violations: dict[str, OpenViolation] = {}
    for row in rows:
        epoch = -1 if row.epoch is None else row.epoch
        for name, state in json.loads(row.checks).items():
            violation = open_violations.get(name)
            closes = state == CheckState.HELD and (row.exhaustive or name not in SAMPLED)
            if closes and violation is not None and epoch >= violation.epoch:
                del open_violations[name]
        for name, text in reversed(json.loads(row.violations)):
            open_violations[name] = OpenViolation(check=name, text=text, epoch=epoch)
    return tuple(open_violations[name] for name in sorted(open_violations))


def _make_row(lake: PipelineLake, verification: Verification, clock: Clock, *, exhaustive: bool) -> VerificationRow:
    version = versions.find_current_version(lake)
    return VerificationRow(
        pipeline=lake.name,
        at=clock.now(),
        epoch=verification.epoch,
        result_fingerprint=result_fingerprint(lake.pipeline),
        stream_version=None if version is None else version.number,
        exhaustive=exhaustive,
        checks=json.dumps({name: result.state.value for name, result in verification.checks.items()}),
        violations=json.dumps([[violation.check, violation.text] for violation in verification.violations]),
    )
