"""All checks of one pipeline: facts are gathered once, each check is a pure function over them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from cutover.clock import Clock, SystemClock
from cutover.definition.pipeline import Pipeline
from cutover.errors import CutoverError, LakeError
from cutover.lake import losses, tables, versions
from cutover.lake.epochs import EpochLog
from cutover.settings import Settings
from reconcile import seal
from reconcile.verify import n3_no_gap
from reconcile.verify.facts import Facts
from reconcile.verify.model import Checked, State, Verification, Violation
from reconcile.verify.oracle import Oracle

Check = Callable[[Facts], Iterable[Violation]]
CHECKS: Mapping[str, tuple[str, Check]] = {"N3": ("no gap, no overlap", n3_no_gap.check)}


def verify(
    settings: Settings,
    pipeline: Pipeline,
    *,
    oracle: Oracle | None = None,
    only: Sequence[str] = (),
    clock: Clock | None = None,
) -> Verification:
    """Judge every check of a pipeline's current stream version; reads only, also while a driver works.

    Args:
        settings: Where lake and log are.
        pipeline: The definition.
        oracle: What the producer knows; None in production.
        only: Names of the checks to judge; none: all.
        clock: The wall clock.

    Returns:
        What each check has come to. A table that cannot be read makes no check fail: none can be judged then.
    """
    clock = clock or SystemClock()
    del oracle
    began = clock.monotonic()
    try:
        facts = _gather(settings, pipeline)
    except CutoverError as error:
        return Verification(pipeline=pipeline.name, checks={}, error=str(error), runbook=error.runbook)
    checks = {name: _judged(name, facts) for name in CHECKS if not only or name in only}
    return Verification(
        pipeline=pipeline.name,
        checks=checks,
        epoch=facts.records[-1].epoch if facts.records else None,
        table_version=facts.table_version,
        seconds=round(clock.monotonic() - began, 3),
    )


def _judged(name: str, facts: Facts) -> Checked:
    title, check = CHECKS[name]
    found = tuple(check(facts))
    return Checked(name=name, title=title, state=State.VIOLATED if found else State.HELD, violations=found)


def _gather(settings: Settings, pipeline: Pipeline) -> Facts:
    version = versions.current(settings, pipeline)
    if version is None or not tables.exists(version.uri):
        msg = f"Pipeline `{pipeline.name}`: expected an epoch log under this definition, found none."
        raise LakeError(msg)
    log = EpochLog(version.uri)
    return Facts(
        stream=version.app_id,
        pipeline=pipeline,
        records=tuple(log.records()),
        transaction=log.transaction(version.app_id),
        known_epoch=seal.known_epoch(settings, version),
        losses=losses.losses(settings, version),
        table_version=log.version,
    )
