"""History and metrics of check results: a violation stays open until a later run evaluates that check and it holds.

A sampled run may miss what another run has found. A violation of a sampled check is therefore closed only by an
exhaustive run (`cutover verify P --all`). Metrics are the state of each check and the number of violations.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cutover.clock import Clock, SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.control import versions
from cutover.lake.journal import Journal
from cutover.metrics import tasks
from cutover.metrics.families import MetricSample
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.journal_rows import VerificationRow
from cutover.reconcile.verify.model import CheckState, Verification
from cutover.reconcile.verify.runner import verify_pipeline

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


@tasks.write_metrics("verify", tasks.describe_samples(list_check_samples))
def verify_and_record(
    lake: PipelineLake,
    *,
    only: Sequence[str] = (),
    exhaustive: bool = False,
    seed: int | None = None,
    clock: Clock | None = None,
) -> Verification:
    """Evaluate the checks and record their results, unless no check could be evaluated.

    If the lake cannot be written, a warning is logged and the results are returned all the same.

    Raises:
        DefinitionError: A name in `only` is not the name of a check.
    """
    clock = clock or SystemClock()
    verification = verify_pipeline(lake, only=only, exhaustive=exhaustive, seed=seed, clock=clock)
    if verification.error is None:
        try:
            Journal(lake.settings, lake.name, VerificationRow).append(
                _make_row(lake, verification, clock, exhaustive=exhaustive)
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
