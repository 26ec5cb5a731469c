"""Settings under which epochs classify records: read from the micro-batches' session, again when that changes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import code, readback
from cutover.engine.effective_settings import EffectiveSettings
from cutover.events import log
from cutover.lake.epochs.epoch_log import EpochRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN = (
    "cutover.streaming.compaction.merge",
    "cutover.streaming.microbatch.aggregate",
    "cutover.streaming.microbatch.dedup_state",
    "cutover.streaming.microbatch.slices",
    "cutover.streaming.microbatch.spill",
    "cutover.streaming.process.time_policy",
    "cutover.streaming.source.query",
)
"""What the stream alone judges and aggregates by; every epoch of a version has to have the same."""


class DriverSettingsRecorder:
    """Settings in force in one driver, as the epochs of its queries find them."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._confs: Mapping[str, str] = {}  # of the session, when all of them were last read
        self._found: EffectiveSettings | None = None
        self._isolation = ""

    def add_settings(
        self, record: EpochRecord, batch: "DataFrame", session: "SparkSession | None", query: str
    ) -> EpochRecord:
        """Return an epoch's record with the settings that its records were judged by.

        Args:
            record: With the digest of the epoch before it, if there is one.
            batch: The micro-batch.
            session: That the query was started in.
            query: Its name.
        """
        in_force = self._read(batch, session, query)
        is_same = record.in_force == in_force.digest
        if not is_same and record.in_force is not None:
            log.warning("settings_changed", pipeline=self._pipeline.name, epoch=record.epoch, runbook="SealBroken")
        items = None if is_same else in_force.families
        return replace(record, in_force=in_force.digest, in_force_items=items, isolation=self._isolation)

    def _read(self, batch: "DataFrame", session: "SparkSession | None", query: str) -> EffectiveSettings:
        now = readback.read_confs(batch.sparkSession)
        if self._found is None or now != self._confs:
            own_code = {"code of the stream": code.hash_modules(OWN)}
            session_settings = readback.read_session_settings(batch.sparkSession, self._pipeline, own_code)
            self._isolation = readback.read_isolation(batch, session, query)
            self._found, self._confs = session_settings, now
        return self._found
