"""What a batch run judges records by, read from the session that reads them: one table holds one truth."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutover.batch.cut import BatchCut
from cutover.batch.read.index import IndexHistory
from cutover.definition.model.pipeline import Pipeline
from cutover.engine import code, readback
from cutover.engine.effective_settings import EffectiveSettings, ReportedSettings, find_drifts
from cutover.errors import LakeError
from cutover.lake import batch_runs
from cutover.lake.epochs.epoch_log import EpochLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN = (
    "cutover.batch.plan.dirty",
    "cutover.batch.read.scan",
    "cutover.batch.read.sql",
    "cutover.batch.sessions",
    "cutover.batch.windows",
    "cutover.batch.write.replace",
    "cutover.batch.write.result",
)
"""What the batch path alone judges and aggregates by."""


class OtherSettings(Exception):  # noqa: N818 -- no error: the run recomputes everything
    """The runs on which this one would build judged their records by other settings; nothing was published."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


@dataclass(slots=True)
class RunSettingsRecorder:
    """Settings in force and isolation, of all reads of one run; nothing before the first one."""

    found: EffectiveSettings | None = None
    isolations: set[str] = field(default_factory=set)

    def make_run_fields(self, pipeline: Pipeline, history: IndexHistory) -> dict[str, Any]:
        """Return what a run records of it, by field; of a run that read nothing it is as before."""
        previous = history.newest
        if self.found is None:
            isolation = pipeline.source.isolation if previous is None else previous.isolation
            return {"isolation": isolation, "in_force": history.in_force}
        digest = self.found.digest
        items = None if digest == history.in_force else self.found.families
        isolation = ",".join(sorted(self.isolations)) or pipeline.source.isolation
        return {"isolation": isolation, "in_force": digest, "in_force_items": items}

    def note(self, records: "DataFrame", pipeline: Pipeline, history: IndexHistory) -> None:
        """Take note of one read.

        Raises:
            OtherSettings: The runs before judged by others.
            LakeError: An earlier read of this run had others.
        """
        self.look(records.sparkSession, pipeline, history)
        self.isolations.add(readback.read_isolation(records))

    def look(self, spark: "SparkSession", pipeline: Pipeline, history: IndexHistory) -> None:
        """Take note of a session that reads the log; raises as `note`."""
        now = readback.read_session_settings(spark, pipeline, {"code of batch": code.hash_modules(OWN)})
        if self.found is not None and now != self.found:
            msg = f"Batch of `{pipeline.name}`: expected settings in force that hold for a whole run, got others in it."
            raise LakeError(msg + "\nHint: nothing was published; run it again.", runbook="SealBroken")
        if history.in_force not in {None, now.digest}:
            raise OtherSettings(now.digest)
        self.found = now


def are_apart(history: IndexHistory, target: BatchCut) -> bool:
    """Return whether stream and batch are recorded with settings that differ: a run without records checks again.

    Else a batch table that was computed under unintended settings would stay until the next record comes.
    """
    newest = history.newest
    batch = None if newest is None else batch_runs.find_effective_settings(history.runs, newest)
    stream = EpochLog(target.version.uri).in_force(target.record.in_force)
    if batch is None or stream is None:
        return False
    return bool(
        find_drifts(
            [ReportedSettings(reporter="batch", settings=batch), ReportedSettings(reporter="stream", settings=stream)]
        )
    )
