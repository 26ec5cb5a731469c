"""Settings in force of a batch run, read from its Spark session; all runs of a table must share them."""

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
from cutover.records.parsing.writer_schemas import list_digests

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN = (
    "cutover.batch.plan",
    "cutover.batch.read.scan",
    "cutover.batch.write.result",
    "cutover.batch.windows",
    "cutover.batch.write.replace",
)
"""Modules of the batch path that determine results."""


class OtherSettings(Exception):  # noqa: N818 -- no error: the run recomputes everything
    """The runs that this one would build on used other settings; nothing was published."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


@dataclass(slots=True)
class RunSettingsRecorder:
    """Recorder of the settings in force and the isolation of all reads of one run; empty before the first read."""

    in_force: EffectiveSettings | None = None
    isolations: set[str] = field(default_factory=set)

    def make_run_fields(self, pipeline: Pipeline, history: IndexHistory) -> dict[str, Any]:
        """Return the fields of the recorded run; a run without reads has those of the previous run."""
        previous = history.newest
        if self.in_force is None:
            isolation = pipeline.source.isolation if previous is None else previous.isolation
            return {"isolation": isolation, "in_force": history.in_force}
        schemas = list_digests(pipeline)
        digest = self.in_force.digest
        items = None if digest == history.in_force else self.in_force.families
        isolation = ",".join(sorted(self.isolations)) or pipeline.source.isolation
        return {"isolation": isolation, "in_force": digest, "in_force_items": items, "schemas": schemas}

    def record_read(self, records: "DataFrame", pipeline: Pipeline, history: IndexHistory) -> None:
        """Record the settings of one read.

        Raises:
            OtherSettings: Earlier runs used other settings.
            LakeError: An earlier read of this run had other settings.
        """
        self.check_session(records.sparkSession, pipeline, history)
        self.isolations.add(readback.read_isolation(records))

    def check_session(self, spark: "SparkSession", pipeline: Pipeline, history: IndexHistory) -> None:
        """Record the settings of a session that reads the log, with the errors of `record_read`."""
        now = readback.read_session_settings(spark, pipeline, {"code of batch": code.hash_modules(OWN)})
        if self.in_force is not None and now != self.in_force:
            msg = f"Batch of `{pipeline.name}`: expected the same settings for all reads of a run, got different ones."
            raise LakeError(msg + "\nHint: nothing was published; run it again.", runbook="SealBroken")
        if history.in_force not in {None, now.digest}:
            raise OtherSettings(now.digest)
        self.in_force = now


def are_apart(history: IndexHistory, target: BatchCut) -> bool:
    """Return whether the recorded settings of stream and batch differ; then even a run without records checks again.

    Otherwise a batch table computed under unintended settings would stay until the next record arrives.
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
