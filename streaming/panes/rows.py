"""Panes and held windows as rows of the epoch log, written with each epoch and read at a start; the changelog of panes.

`_kind` `pane`: what came out; `_class` is early, on_time, late or retraction, or `dropped`: rows that no pane shows,
since the trigger had come to its end. `_kind` `held`: a window and key after an epoch that changed it; its newest row
counts, and `_class` `gone` says that it became a part of another session.

The changelog has panes as records of a topic, one transaction an epoch, which also says which epoch it was. A record's
key is window and key, its value the newest pane of them: a compacted topic retains the table. A retraction is a record
without a value where its window no longer exists because sessions merged; elsewhere the next pane replaces the previous
one.

The table comes first. What a producer of the same stream left open is aborted as the next one begins, and the topic
says up to which epoch it has the panes; the epochs behind it are sent from the table.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException, Producer
from deltalake import DeltaTable

from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.window_fn import Interval
from cutover.engine import queries
from cutover.errors import LogError
from cutover.events import log
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.serving.views import panes_sql
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import RowKind, epoch_log_schema, kind_sql
from cutover.log import options
from cutover.log.kafka import LogClient
from cutover.panes.held_windows import Arrival, Held
from cutover.panes.machine import begin, dump_machine, load_machine
from cutover.panes.model import Key, Pane, Timing
from cutover.pipeline_lake import PipelineLake
from cutover.quoting import literal
from cutover.records.fold import fold_sql
from cutover.records.watermark import is_closed_sql
from cutover.streaming.compaction.merge import newest_held_sql
from cutover.streaming.panes import values
from cutover.streaming.panes.operator import Emission, RestoredWindows
from cutover.streaming.panes.values import Partial
from cutover.streaming.process.context import one_line

Row = dict[str, Any]
Shown = Mapping[tuple[Key, Interval, int], Pane]  # by key, window and index


def to_rows(emission: Emission, pipeline: Pipeline, epoch: int) -> pa.Table:
    """Return one table in the epoch log's schema: panes, held windows, dropped rows."""
    rows = [
        *_make_pane_rows(emission, pipeline),
        *_make_held_rows(emission, pipeline),
        *_make_dropped_rows(emission, pipeline),
    ]
    schema = epoch_log_schema(pipeline)
    return pa.Table.from_pylist([{**row, "_epoch": epoch} for row in rows], schema=schema)


def _make_pane_rows(emission: Emission, pipeline: Pipeline) -> Iterator[Row]:
    for order, pane in enumerate(emission.panes):
        (value,) = pane.value
        about = {
            "order": order,
            "index": pane.index,
            "timing": pane.timing.value,
            "processing_time": pane.processing_time,
        }
        yield _row(RowKind.PANE, pane.kind, pane.window, pane.key, pipeline) | _value(value, pipeline) | _record(about)


def _make_held_rows(emission: Emission, pipeline: Pipeline) -> Iterator[Row]:
    for (key, window), held_window in emission.changed_windows.items():
        if held_window is None:
            yield _row(RowKind.HELD, "gone", window, key, pipeline)
            continue
        about = {
            "machine": dump_machine(held_window.machine),
            "due": held_window.due,
            "is_touched": (key, window) in emission.touched,
            "fresh": held_window.fresh,
            "is_punctual": held_window.is_punctual,
            "firings": held_window.firings,
            "panes": [[*pane.window, pane.index] for pane in held_window.panes],
            "accumulation": pipeline.accumulation.value,
        }
        value = _value(held_window.contents[0], pipeline) if held_window.contents else {"_n": 0}
        yield _row(RowKind.HELD, "held", window, key, pipeline) | value | _record(about)


def _make_dropped_rows(emission: Emission, pipeline: Pipeline) -> Iterator[Row]:
    for arrival in emission.dropped:
        row = _row(RowKind.PANE, "dropped", arrival.window, arrival.key, pipeline)
        yield row | _value(arrival.contents[0], pipeline)


def _row(kind: str, name: str, window: Interval, key: Key, pipeline: Pipeline) -> Row:
    return {"_kind": kind, "_class": name, **values.bounds(window), **values.make_key_columns(key, pipeline)}


def _value(partial: Partial, pipeline: Pipeline) -> Row:
    return values.state_columns(partial, pipeline)


def _record(about: Row) -> Row:
    return {"_record": json.dumps(about, sort_keys=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneHistory:
    """All panes of an epoch log, from the first epoch on."""

    panes: tuple[Pane, ...]  # in order; the value is one partial aggregate
    dropped: tuple[tuple[int, Interval], ...]  # epoch and window of rows whose trigger had come to its end
    unshown_rows: tuple[tuple[Interval, Key, int], ...]  # window, key, rows that no pane has shown


def read_history(table: DeltaTable, pipeline: Pipeline) -> PaneHistory:
    """Return all panes and the held rows, closed windows included."""
    order = "ORDER BY _epoch, CAST(_record->>'$.order' AS bigint)"
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", table, kinds=(RowKind.PANE, RowKind.HELD))
        with delta.naming(table):
            rows = queries.query_table(connection, f"SELECT * FROM log WHERE {kind_sql(RowKind.PANE)} {order}")  # noqa: S608
            held_rows = queries.query_table(connection, _newest(pipeline, None))
    dropped = pc.equal(rows["_class"], pa.scalar("dropped"))
    dropped_rows = rows.filter(dropped)
    waiting = [(window, key, about["fresh"]) for window, key, _, about in _read(held_rows, pipeline)]
    return PaneHistory(
        panes=tuple(_restore_panes(rows.filter(pc.invert(dropped)), pipeline)),
        dropped=tuple(
            zip(values.list_values(dropped_rows["_epoch"]), values.list_row_windows(dropped_rows), strict=True)
        ),
        unshown_rows=tuple(waiting),
    )


def _restore_panes(rows: pa.Table, pipeline: Pipeline) -> Iterator[Pane]:
    names = rows["_class"].to_pylist()
    for (window, key, partial, about), name in zip(_read(rows, pipeline), names, strict=True):
        yield Pane(
            window=window,
            key=key,
            value=(partial,),
            timing=Timing(about["timing"]),
            index=about["index"],
            processing_time=about["processing_time"],
            is_retraction=name == "retraction",
        )


def restore_windows(
    table: DeltaTable, pipeline: Pipeline, trigger: Trigger, *, watermark: int | None, is_same: bool
) -> RestoredWindows:
    """Return the windows from which panes continue.

    Args:
        table: The epoch log.
        pipeline: The definition.
        trigger: Its trigger.
        watermark: After the newest epoch; windows that it has closed are left out, unless a period can still end.
        is_same: The newest epoch ended under this trigger and accumulation. If not, each open window starts again: what
            it holds comes as rows of the next epoch, its panes continue where they were.
    """
    with queries.open_duckdb() as connection:
        delta.bind(connection, "log", table, kinds=_kinds(pipeline, is_same=is_same))
        with delta.naming(table):
            rows = queries.query_table(connection, _newest(pipeline, watermark))
            shown_panes = _read_shown_panes(connection, pipeline, rows)
            if is_same:
                return RestoredWindows(windows=tuple(_restore_windows(rows, pipeline, trigger, shown_panes)))
            held_windows = tuple(_restart_windows(rows, pipeline, trigger, shown_panes))
            return RestoredWindows(windows=held_windows, backlog=tuple(_backlog(connection, pipeline, watermark)))


def _kinds(pipeline: Pipeline, *, is_same: bool) -> tuple[RowKind, ...]:
    """Return what `read` reads: panes where they may be retracted, partial rows where windows start again."""
    panes = (RowKind.PANE,) if pipeline.accumulation is Accumulation.RETRACTING else ()
    return (RowKind.HELD, *panes, *(() if is_same else (RowKind.PARTIAL,)))


def _newest(pipeline: Pipeline, watermark: int | None) -> str:
    """Return the query of the held state of every window and key that can still fire."""
    newest = newest_held_sql(pipeline, f"(SELECT * FROM log WHERE {kind_sql(RowKind.HELD)})")  # noqa: S608 -- ours
    idle = "(_record->>'$.due') IS NULL AND (_record->>'$.is_touched') <> 'true'"
    over = f"{is_closed_sql(pipeline, watermark)} AND {idle}"
    return f"SELECT * FROM ({newest}) WHERE _class = 'held' AND NOT ({over})"  # noqa: S608 -- quoted


def _read_shown_panes(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, table: pa.Table) -> Shown:
    """Return the panes that may have to be retracted; none without retractions."""
    if pipeline.accumulation is not Accumulation.RETRACTING:
        return {}
    connection.register("held", table)
    timings = ", ".join(literal(timing.value) for timing in Timing)
    # Panes of what became one session lie within it.
    in_held_windows = "window_start >= (SELECT min(window_start) FROM held)"
    query = f"SELECT * FROM log WHERE {kind_sql(RowKind.PANE)} AND _class IN ({timings}) AND {in_held_windows}"  # noqa: S608 -- quoted
    rows = queries.query_table(connection, query)
    return {(pane.key, pane.window, pane.index): pane for pane in _restore_panes(rows, pipeline)}


def _read(rows: pa.Table, pipeline: Pipeline) -> Iterator[tuple[Interval, Key, Partial, Row]]:
    places = values.list_row_windows(rows), values.keys(rows, pipeline)
    about = [json.loads(text) for text in values.list_values(rows["_record"])]
    return zip(*places, values.partials(rows, pipeline), about, strict=True)


def _restore_windows(rows: pa.Table, pipeline: Pipeline, trigger: Trigger, shown_panes: Shown) -> Iterator[Held]:
    for window, key, partial, about in _read(rows, pipeline):
        yield Held(
            window=window,
            key=key,
            machine=load_machine(trigger, about["machine"]),
            contents=(partial,) if partial.records else (),
            fresh=about["fresh"],
            is_punctual=about["is_punctual"],
            panes=_of(key, about, shown_panes),
            firings=about["firings"],
        )


def _restart_windows(rows: pa.Table, pipeline: Pipeline, trigger: Trigger, shown_panes: Shown) -> Iterator[Held]:
    """Return the same windows with a fresh trigger; panes of discarding windows cannot be retracted."""
    for window, key, _, about in _read(rows, pipeline):
        parts = about["accumulation"] == Accumulation.DISCARDING.value
        panes = () if parts else _of(key, about, shown_panes)
        yield Held(window=window, key=key, machine=begin(trigger), panes=panes, firings=about["firings"])


def _of(key: Key, about: Row, shown_panes: Shown) -> tuple[Pane, ...]:
    """Return the panes to retract."""
    if not shown_panes:
        return ()
    return tuple(shown_panes[key, Interval(start, end), index] for start, end, index in about["panes"])


def _backlog(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, watermark: int | None) -> Sequence[Arrival]:
    """Return what every open window holds, folded."""
    # A session that is open may have begun with rows that alone would be closed.
    held_sql = fold_sql(pipeline, f"(SELECT * FROM log WHERE {kind_sql(RowKind.PARTIAL)})")  # noqa: S608 -- ours
    rows = queries.query_table(connection, f"SELECT * FROM ({held_sql}) WHERE NOT {is_closed_sql(pipeline, watermark)}")  # noqa: S608
    return values.arrivals(rows, pipeline)


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
