"""A topic of records and the job of a team that reads it, in a folder: what tests of followed jobs share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from cutover.batch.recompute import recompute_windows
from cutover.definition import Count, Delta, Fixed, Join, Max, Min, Pipeline, SparkStream, Sum, Topic
from cutover.definition.measures.kinds import Measure
from cutover.definition.model.pipeline import OutputMode
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Finding
from cutover.reconcile.run import run_reconciliation
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import Settings
from cutover.streaming.driver import run_driver
from tests.integration.streaming.rig import Event
from tests.support.jobs import Write, count_windows, join_topics, merge_into, read_topic, run_job

EVENTS = [
    Event(id=number, minute=6.0 * number - (260 if number % 9 == 8 else 0), key="ab"[number % 2], partition=number % 2)
    for number in range(60)
]
LATE = {(number % 2, number // 2) for number in (44, 53)}
"""Partition and offset of the events whose window was closed by the watermark of the batch before theirs."""

COLUMNS: dict[str, Measure] = {name: Max(name) for name in ("shop", "is_gift", "score", "amount", "day")}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTopic:
    """A topic with records, and the folder of a job that reads it."""

    spark: SparkSession
    settings: Settings
    topic: str
    place: Path

    def stream(self, **fields: Any) -> SparkStream:
        """Return the job in the folder."""
        defaults = {"output_mode": "append"} | fields
        return SparkStream(table=Delta(f"{self.place}/table"), checkpoint=f"{self.place}/checkpoint", **defaults)

    def windows(self, mode: OutputMode = "append") -> Pipeline:
        """Return the definition of hourly windows."""
        return Pipeline(
            name="clicks",
            source=Topic(
                name=self.topic,
                schema="id bigint NOT NULL, k string, at timestamp",
                event_time="at",
                time_format="millis",
                parse="from_json",
            ),
            key=("k",),
            window=Fixed(hours=1),
            measures={"n": Count(), "ids": Sum("id"), "newest": Max("id")},
            stream=self.stream(output_mode=mode),
        )

    def records(self) -> Pipeline:
        """Return the definition of a row per record."""
        return replace(
            self.windows(),
            where="id <> 7",
            derive={
                "shop": "coalesce(k, 'none')",
                "is_gift": "id % 3 = 0",
                "score": "CAST(id AS double) / 7e0",
                "amount": "CAST(id AS decimal(18,0)) * 1.25",
                "day": "CAST(at AS date)",
            },
            key=("id",),
            measures={"copies": Count(), **COLUMNS},
            stream=self.stream(row_per_record=True),
        )

    @property
    def right_topic(self) -> str:
        """Return the name of the topic on the right of a join."""
        return f"{self.topic}-right"

    def pairs(self, between: tuple[str, str] = ("0 minutes", "30 minutes")) -> Pipeline:
        """Return the definition of a row per pair of two topics."""
        windows = self.windows()
        columns = {"k": "shop", "right_id": "click_id", "right_at": "clicked_at"}
        needed = {"k", "right_id", *(["right_at"] if between[0].startswith("-") else [])}
        return replace(
            windows,
            derive={"amount": "CAST(id AS decimal(15,0)) * 1.25"},
            join=Join(
                right=replace(windows.source, name=self.right_topic), on={"k": "k"}, between=between, ids=("id", "id")
            ),
            measures={
                "pairs": Count(),
                "amount": Sum("amount"),
                "distance": Max("right_id - id"),
                "is_gift": Min("right_id % 3 = 0"),
            },
            stream=self.stream(row_per_record=True, columns={name: columns[name] for name in needed}),
        )

    def run_join(
        self,
        write: Write | None = None,
        between: tuple[str, str] = ("0 minutes", "30 minutes"),
        delays: tuple[str, str] = ("10 minutes", "5 minutes"),
    ) -> list[Any]:
        """Run a job that joins both topics over what they hold, and return the progress of its batches."""
        left, right = (read_topic(self.spark, self.settings, name, rows=10) for name in (self.topic, self.right_topic))
        return run_job(join_topics(left, right, delays, between), self.place, "append", write)

    def run_query(
        self,
        change: Callable[[DataFrame], DataFrame],
        mode: OutputMode = "append",
        write: Write | None = None,
    ) -> list[Any]:
        """Run a job over what the topic holds, and return the progress of its batches."""
        return run_job(change(read_topic(self.spark, self.settings, self.topic, rows=20)), self.place, mode, write)

    def run(self, kind: str = "append", change: Callable[[DataFrame], DataFrame] = lambda rows: rows) -> PipelineLake:
        """Run a job with hourly windows over what the topic holds, and return the pipeline that follows it."""
        mode: OutputMode = "append" if kind == "append" else "complete" if kind == "complete" else "update"
        write = merge_into(f"{self.place}/table", marks="marks" in kind) if mode == "update" else None
        self.run_query(lambda records: count_windows(change(records)), mode, write)
        return PipelineLake(self.settings, self.windows(mode))


def by_ids(pipeline: Pipeline) -> Pipeline:
    """Return a definition in which a record that was sent twice counts once."""
    return replace(pipeline, source=replace(pipeline.source, record_id="id"))


def compare(lake: PipelineLake) -> Finding:
    """Follow the job to its newest batch, recompute, and compare."""
    assert run_driver(lake, until="drain") == 0
    recompute_windows(lake)
    return run_reconciliation(lake).finding


def list_late(finding: Finding) -> set[tuple[int, int]]:
    """List partition and offset of the late records that a finding shows."""
    return {(sample.partition, sample.offset) for sample in finding.samples if sample.class_ == "late"}


def list_broken_invariants(lake: PipelineLake) -> list[str]:
    """Verify the epochs of a follower exhaustively, and return what does not hold."""
    verification = verify_pipeline(lake, exhaustive=True)
    return [str(checked) for checked in verification.checks.values() if checked.state is not CheckState.HELD]


def remove_batches(place: Path, *, before: int) -> None:
    """Remove the oldest batches of a job from its checkpoint, as Spark does."""
    for folder in ("offsets", "commits"):
        for number in range(before):
            for name in (f"{number}", f".{number}.crc"):
                (place / "checkpoint" / folder / name).unlink(missing_ok=True)
