"""Helpers of the stream's tests: a small definition, a new log, and the right answer in plain Python."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from cutover.definition import Count, Fixed, Join, Lateness, Max, Pipeline, Sum, Topic
from cutover.engine import queries
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings

MINUTE = 60_000_000
NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000

Cell = tuple[int, str | None]  # window start in microseconds, key
Value = tuple[int, int, int]  # records, sum of ids, sum of squared ids: which ids counted, and how often


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One record to send: `minute` after noon, or any bytes."""

    id: int
    minute: float = 0.0
    key: str | None = "a"
    partition: int = 0
    logged: float | None = None  # minute of the log timestamp; None: the event's own
    raw: bytes | None = None

    @property
    def micros(self) -> int:
        """Return the event time."""
        return NOON + int(self.minute * MINUTE)

    @property
    def value(self) -> bytes:
        """Return the record's bytes."""
        if self.raw is not None:
            return self.raw
        return json.dumps({"id": self.id, "k": self.key, "at": self.micros // 1000}).encode()


def pipeline(topic: str, *, cap: int = 50, lateness: Lateness | None = None) -> Pipeline:
    """Return the tests' definition: 10-minute windows by key; `drop` is filtered."""
    return Pipeline(
        name="clicks",
        source=Topic(
            name=topic,
            schema="id bigint NOT NULL, k string, at timestamp NOT NULL",
            event_time="at",
            time_format="millis",
        ),
        where="k IS NULL OR k <> 'drop'",
        key=("k",),
        window=Fixed(minutes=10),
        measures={"clicks": Count(), "ids": Sum("id"), "squares": Sum("id * id"), "newest": Max("id")},
        lateness=lateness or Lateness(out_of_orderness="5 minutes", allowed="0 seconds"),
        max_rows_per_epoch=cap,
    )


def send(settings: Settings, topic: str, events: Iterable[Event]) -> None:
    """Write events in order; each reaches the log or the test fails."""
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers, "linger.ms": 1})
    for event in events:
        logged = event.minute if event.logged is None else event.logged
        producer.produce(
            topic,
            event.value,
            partition=event.partition,
            timestamp=(NOON + int(logged * MINUTE)) // 1000,
            on_delivery=lambda error, _: failed.append(str(error)) if error else None,
        )
    assert producer.flush(30) == 0
    assert failed == []


def make_topic(settings: Settings, topic: str, partitions: int = 1) -> None:
    """Create a topic that keeps records of any age."""
    LogClient(settings).create_topic(topic, partitions=partitions, config={"retention.ms": "-1"})


def fast(settings: Settings, **changes: object) -> Settings:
    """Return settings whose driver wastes no time."""
    stream = settings.stream.model_copy(update={"trigger_seconds": 0.05, "heartbeat_seconds": 0.2, **changes})
    return settings.model_copy(update={"stream": stream})


def expect_cells(events: Iterable[Event]) -> dict[Cell, Value]:
    """Return what a table that counts each of these events once must hold."""
    cells: dict[Cell, list[int]] = defaultdict(list)
    for event in events:
        cells[event.micros // (10 * MINUTE) * 10 * MINUTE, event.key].append(event.id)
    return {cell: (len(ids), sum(ids), sum(i * i for i in ids)) for cell, ids in cells.items()}


def count_by_cell(
    lake: PipelineLake, *, classes: Sequence[str] = ("accepted", "late"), epoch: int | None = None
) -> dict[Cell, Value]:
    """Return what the epoch log adds up to by window and key, doubled rows included."""
    kinds = ", ".join(f"'{name}'" for name in classes)
    query = (
        "SELECT epoch_us(window_start), k, sum(_n)::BIGINT, sum(ids)::BIGINT, sum(squares)::BIGINT FROM rows "  # noqa: S608
        f"WHERE _class IN ({kinds}) GROUP BY ALL"
    )
    return {(row[0], row[1]): (row[2], row[3], row[4]) for row in query_rows(lake, query, epoch=epoch)}


def query_rows(lake: PipelineLake, query: str, *, epoch: int | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of a query over `rows`: partials and ledger up to an epoch."""
    log, connection = epoch_log(lake), queries.open_duckdb()
    newest = log.newest()
    log.relation(connection, "rows", epoch=epoch if epoch is not None else -1 if newest is None else newest.epoch)
    return list(connection.execute(query).fetchall())


def epoch_log(lake: PipelineLake) -> EpochLog:
    """Return the current epoch log."""
    version = versions.find_current_version(lake)
    assert version is not None
    return EpochLog(version.uri)


def list_spark_files(lake: PipelineLake) -> list[str]:
    """Return the listed files of the epoch log that Spark's executors wrote, as their footers say."""
    table = epoch_log(lake).table
    root = Path(delta.local_root(table) or "")
    paths = sorted(str(action["path"]) for action in delta.actions(table))
    return [path for path in paths if is_by_spark(root / unquote(path))]


def is_by_spark(file: Path) -> bool:
    """Return whether the footer of a data file says that Spark wrote it: an epoch that overflowed."""
    return "parquet-mr" in str(pq.read_metadata(file).created_by)


def records(lake: PipelineLake) -> list[EpochRecord]:
    """Return the records of all epochs."""
    return epoch_log(lake).records()


def gaps(epoch_records: Sequence[EpochRecord]) -> list[tuple[int, Mapping[int, int], Mapping[int, int]]]:
    """Return where an epoch does not start at the end of the one before, or where a number is missing."""
    return [
        (following.epoch, previous.end, following.start)
        for previous, following in pairwise(epoch_records)
        if following.epoch != previous.epoch + 1
        or dict(following.start) != dict.fromkeys(following.start, 0) | dict(previous.end)
    ]


def over_topic(definition: Pipeline, topic: str) -> Pipeline:
    """Return the definition over another topic; of a join of two over another one on the right too."""
    definition_of_topic = replace(definition, source=replace(definition.source, name=topic))
    if not isinstance(definition_of_topic.join, Join):
        return definition_of_topic
    return replace(
        definition_of_topic,
        join=replace(definition_of_topic.join, right=replace(definition_of_topic.join.right, name=f"{topic}-right")),
    )


def for_commands(monkeypatch: pytest.MonkeyPatch, settings: Settings, topic: str) -> None:
    """Let commands of this process find an installation with the tests' definition."""
    folder = settings.home / "definitions"
    folder.mkdir()
    text = f"from tests.integration.streaming import rig\n\nCLICKS = rig.pipeline({topic!r})\n"
    (folder / "clicks.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(settings.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(folder))
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", str(settings.kafka.bootstrap_servers))
