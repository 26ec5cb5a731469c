"""What the checks came to, run by run: a violation stands until a run judges that check again, and it holds.

A run that draws a sample may miss what another one found, so of the checks that sample only a run over everything
(`cutover verify P --all`) ends a violation.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cutover.clock import Clock, SystemClock
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.control import versions
from cutover.lake.journal import Journal
from cutover.metrics import tasks
from cutover.reconcile.journal_rows import VerificationRow
from cutover.reconcile.verify import verify_metrics
from cutover.reconcile.verify.model import CheckState, Verification
from cutover.reconcile.verify.runner import verify
from cutover.settings import Settings

SAMPLED = frozenset({"N1", "N4", "N6"})
"""Checks that look at a part of what the log holds, unless all is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A violation that no later run has judged away."""

    check: str
    text: str
    epoch: int  # newest one that the run looked at


@tasks.write_metrics("verify", tasks.texts(verify_metrics.samples))
def verify_and_record(
    settings: Settings,
    pipeline: Pipeline,
    *,
    only: Sequence[str] = (),
    every: bool = False,
    seed: int | None = None,
    clock: Clock | None = None,
) -> Verification:
    """Judge the checks and keep what they came to, where any could be judged.

    A lake that cannot be written is told in the log: what was judged stays true.

    Raises:
        DefinitionError: A name in `only` is none of a check.
    """
    clock = clock or SystemClock()
    found = verify(settings, pipeline, only=only, every=every, seed=seed, clock=clock)
    if found.error is None:
        try:
            Journal(settings, pipeline.name, VerificationRow).append(
                _row(settings, pipeline, found, clock, every=every)
            )
        except (LakeError, OSError) as error:
            log.warning("checks_not_recorded", pipeline=pipeline.name, error=str(error))
    return found


def list_standing(settings: Settings, pipeline: Pipeline) -> tuple[Standing, ...]:
    """Return the violations that stand against the version of the stream that serves.

    Raises:
        LakeError: The record of the checks cannot be read.
    """
    version = versions.current(settings, pipeline)
    rows = Journal(settings, pipeline.name, VerificationRow).read()
    number = None if version is None else version.number
    wanted = (result_fingerprint(pipeline), number)
    return fold_violations(row for row in rows if (row.result_fingerprint, row.stream_version) == wanted)


def fold_violations(rows: Iterable[VerificationRow]) -> tuple[Standing, ...]:
    """Return the violations that stand, one for each check, of rows of `verifications` in their order."""
    found: dict[str, Standing] = {}
    for row in rows:
        epoch = -1 if row.epoch is None else row.epoch
        for name, state in json.loads(row.checks).items():
            before = found.get(name)
            ends = state == CheckState.HELD and (row.exhaustive or name not in SAMPLED)
            if ends and before is not None and epoch >= before.epoch:
                del found[name]
        for name, text in reversed(json.loads(row.violations)):
            found[name] = Standing(check=name, text=text, epoch=epoch)
    return tuple(found[name] for name in sorted(found))


def _row(
    settings: Settings, pipeline: Pipeline, verification: Verification, clock: Clock, *, every: bool
) -> VerificationRow:
    version = versions.current(settings, pipeline)
    return VerificationRow(
        pipeline=pipeline.name,
        at=clock.now(),
        epoch=verification.epoch,
        result_fingerprint=result_fingerprint(pipeline),
        stream_version=None if version is None else version.number,
        exhaustive=every,
        checks=json.dumps({name: checked.state.value for name, checked in verification.checks.items()}),
        violations=json.dumps([[violation.check, violation.text] for violation in verification.violations]),
    )
