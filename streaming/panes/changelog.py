"""The changelog: panes as records of a topic, one transaction an epoch, which also says which epoch it was.

A record's key is window and key, its value the newest pane of them: a compacted topic retains the table.
A retraction is a record without a value where its window no longer exists because sessions merged; elsewhere the next
pane replaces the previous one.

The table comes first. What a producer of the same stream left open is aborted as the next one begins, and the topic
says up to which epoch it has the panes; the epochs behind it are sent from the table.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.errors import LogError
from cutover.events import log
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.serving.views import panes_sql
from cutover.lake.tables.schemas import RowKind, kind_sql
from cutover.log import options
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.streaming.process.context import one_line

TOPIC_CONFIG = {"cleanup.policy": "compact"}
SECONDS = 30.0
STEP = 1_000  # offsets that one look back takes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogRecord:
    """One record of the changelog."""

    key: bytes
    value: bytes | None  # None: the window no longer exists


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsentPanes:
    """The panes of an epoch that the topic may lack."""

    epoch: int
    entries: tuple[ChangelogRecord, ...]


class Changelog:
    """Sends what epochs bring, in their order. Whatever fails is found out from the topic before anything is sent."""

    def __init__(self, lake: PipelineLake, client: LogClient, *, stream: str) -> None:
        self._lake, self._client, self._stream = lake, client, stream
        self._topic = str(lake.pipeline.changelog)
        self._unsent: list[UnsentPanes] = []
        self._producer: Producer | None = None

    def begin(self, epochs: EpochLog | None) -> None:
        """Create the topic if it does not exist, and send the panes of the table that it lacks.

        Raises:
            LogError: No broker answers, or it refuses.
        """
        if self._topic not in self._client.topics():
            self._client.create_topic(self._topic, partitions=1, config=TOPIC_CONFIG)
        try:
            newest_sent = self._connect()
        except KafkaException as error:
            msg = f"Changelog `{self._topic}` of {self._lake.pipeline.name}: expected a transaction, got: "
            msg += f"{error.args[0].str()}."
            hint = "\nHint: nothing was read; the user needs the rights to write, and to transact as `cutover-...`."
            raise LogError(msg + hint, runbook="KafkaUnreachable") from error
        if epochs is not None:
            self._unsent = list_unsent(epochs, self._lake.pipeline, after_epoch=newest_sent)
        self.send()

    def add(self, rows: pa.Table) -> None:
        """Queue the panes of a committed epoch."""
        with queries.open_duckdb() as connection:
            connection.register("rows", rows)
            self._unsent += _by_epoch(connection.sql(_query(self._lake.pipeline, "rows")), self._lake.pipeline)

    def send(self) -> None:
        """Send the queued panes; those that cannot be sent now are retried with the next epoch.

        Raises:
            LogError: Another driver of this stream sends too.
        """
        try:
            if self._unsent and self._producer is None:
                newest_sent = self._connect()
                self._unsent = [unsent for unsent in self._unsent if unsent.epoch > newest_sent]
            while self._unsent and self._producer is not None:
                self._transact(self._producer, self._unsent[0])
                self._unsent.pop(0)
        except KafkaException as error:
            self._producer = None
            if error.args[0].fatal():
                raise self._make_fence_error(error) from error
            self._warn_behind(error)
        except LogError as error:
            self._producer = None
            self._warn_behind(error)

    def _warn_behind(self, error: Exception) -> None:
        epochs = len(self._unsent)
        log.warning("changelog_behind", pipeline=self._lake.pipeline.name, epochs=epochs, error=one_line(error))

    def _connect(self) -> int:
        """Open a new producer: abort an earlier one's transaction; return the newest epoch that the topic has."""
        producer = Producer(
            {
                **options.make_librdkafka_options(self._lake.settings.kafka, self._client.bootstrap),
                "transactional.id": f"cutover-{self._stream}",
                "log_level": 0,
            }
        )
        producer.init_transactions(SECONDS)
        newest_sent = newest_epoch(self._client, self._topic, self._stream)
        self._producer = producer
        return newest_sent

    def _transact(self, producer: Producer, unsent_panes: UnsentPanes) -> None:
        producer.begin_transaction()
        for entry in unsent_panes.entries:
            self._produce(producer, entry)
        marker = {"stream": self._stream, "epoch": unsent_panes.epoch}
        producer.produce(self._topic, key=_json({"stream": self._stream}), value=_json(marker), partition=0)
        producer.commit_transaction(SECONDS)

    def _produce(self, producer: Producer, entry: ChangelogRecord) -> None:
        """Produce one record; wait while the client's buffer is full."""
        while True:
            try:
                producer.produce(self._topic, key=entry.key, value=entry.value)
            except BufferError:
                producer.poll(0.1)
            else:
                producer.poll(0)
                return

    def _make_fence_error(self, error: KafkaException) -> LogError:
        msg = f"Changelog `{self._topic}` of {self._lake.pipeline.name}: expected to be its only writer, got: "
        msg += f"{error.args[0].str()}.\nHint: keep one driver for each pipeline; the table has every pane."
        return LogError(msg, runbook="StreamFenced")


def newest_epoch(client: LogClient, topic: str, stream: str) -> int:
    """Return the newest epoch of a stream that a changelog has; -1 before the first. Partition 0 holds the markers."""
    earliest, end = client.earliest(topic).get(0, 0), client.latest(topic).get(0, 0)
    while end > earliest:
        start = max(earliest, end - STEP)
        ranges = client.read_ranges(topic, {0: (start, end)}, "read_committed")
        epochs = [epoch for record in ranges if (epoch := _parse_whole_epoch(record.value, stream)) is not None]
        if epochs:
            return max(epochs)
        end = start
    return -1


def _parse_whole_epoch(value: bytes | None, stream: str) -> int | None:
    """Return the epoch that a record says to be whole; None of any other record."""
    try:
        marker = json.loads(value or b"null")
    except ValueError:
        return None
    is_ours = isinstance(marker, dict) and marker.get("stream") == stream and set(marker) == {"stream", "epoch"}
    return int(marker["epoch"]) if is_ours else None


def list_unsent(epochs: EpochLog, pipeline: Pipeline, *, after_epoch: int) -> list[UnsentPanes]:
    """Read the table for panes of epochs behind `after_epoch`, in the order in which they came out."""
    newest = epochs.newest()
    if newest is None:
        return []
    with queries.open_duckdb() as connection:
        epochs.panes(connection, "rows", epoch=newest.epoch)
        query = f"SELECT * FROM ({_query(pipeline, 'rows')}) WHERE _epoch > {int(after_epoch)}"  # noqa: S608 -- quoted
        return _by_epoch(connection.sql(f"{query} ORDER BY _epoch, _order"), pipeline)


def _query(pipeline: Pipeline, relation: str) -> str:
    panes = f"(SELECT * FROM {relation} WHERE {kind_sql(RowKind.PANE)} AND _class <> 'dropped')"  # noqa: S608 -- ours
    return f"SELECT * FROM ({panes_sql(pipeline, panes)}) ORDER BY _epoch, _order"  # noqa: S608 -- quoted


def _by_epoch(relation: Any, pipeline: Pipeline) -> list[UnsentPanes]:
    rows: list[dict[str, Any]] = relation.to_arrow_table().to_pylist()
    epochs: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        epochs.setdefault(row["_epoch"], []).append(row)
    return [UnsentPanes(epoch=epoch, entries=tuple(_entries(several, pipeline))) for epoch, several in epochs.items()]


def _entries(rows: Sequence[dict[str, Any]], pipeline: Pipeline) -> Iterator[ChangelogRecord]:
    """Yield the records of panes in order; a retraction only where no pane takes its place."""
    columns = ("window_start", "window_end", *pipeline.key)
    for position, row in enumerate(rows):
        place = {name: row[name] for name in columns}
        if row["_pane"] != "retraction":
            yield ChangelogRecord(key=_json(place), value=_json(row))
        elif not _is_replaced(rows[position:], place):
            yield ChangelogRecord(key=_json(place), value=None)


def _is_replaced(rows: Sequence[dict[str, Any]], place: dict[str, Any]) -> bool:
    """Return whether the pane behind a firing's retractions is of the same window and key."""
    pane = next(row for row in rows if row["_pane"] != "retraction")
    return all(pane[name] == value for name, value in place.items())


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, default=_plain, ensure_ascii=False, sort_keys=True).encode()


def _plain(value: object) -> object:
    """Return a value as JSON has it: whole decimals as numbers, others as text, so that no digit is lost."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    msg = f"no JSON of {type(value).__name__}"
    raise TypeError(msg)
