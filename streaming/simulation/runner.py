"""A scenario on the streaming path: a real topic, the real query, the real epoch log; clock and watermark are a script.

Topic, pipeline and table are created for the scenario in a scratch home and deleted afterwards. Each row is an epoch;
at the end of each moment in between, a tick settles it.
"""

import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, Message, Producer

from cutover.clock import silent
from cutover.counts import count_noun
from cutover.definition.measures.kinds import Avg, Count, Measure
from cutover.definition.model.pipeline import Lateness, Pipeline
from cutover.definition.model.topic import Topic
from cutover.definition.windows.window_fn import FOREVER, Interval
from cutover.engine import queries, spark
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.log import options
from cutover.log.kafka import LogClient
from cutover.output import terminal
from cutover.panes.model import (
    Comes,
    Dropped,
    DropReason,
    Ends,
    InputRow,
    Key,
    Outcome,
    Pane,
    Setting,
    Waiting,
    arriving,
    in_order,
    schedule_events,
)
from cutover.pipeline_lake import PipelineLake
from cutover.records.classes import Class
from cutover.records.reference.measures import finish_measure
from cutover.records.watermark import Observation, WatermarkState
from cutover.settings import Settings, load_settings
from cutover.streaming import driver
from cutover.streaming.microbatch.engine import MicrobatchEngine
from cutover.streaming.panes import rows as pane_rows
from cutover.streaming.panes import values as pane_values
from cutover.streaming.panes.values import Partial
from cutover.streaming.process.context import DriverContext
from cutover.streaming.process.heartbeat import HeartbeatWriter, first_beat, run_folder
from cutover.streaming.sink.committer import Committer, new_run_id
from cutover.streaming.source.start_offsets import StartOffsets
from cutover.timestamps import from_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def open_scratch_home(settings: Settings, client: LogClient, name: str) -> Iterator[Settings]:
    """Yield settings with a separate home and lake, over the same log.

    Args:
        settings: Of the installation.
        client: Knows where the broker is.
        name: What the folder is called after.
    """
    terminal.redirect_output(settings.home)  # before a session does it, into a folder that goes
    home = settings.home.resolve() / "tmp" / f"{name}-{uuid.uuid4().hex}"
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": client.bootstrap})
    stream = settings.stream.model_copy(update={"trigger_seconds": 0.1})
    unserved = {"home": home, "lake": None, "kafka": kafka, "stream": stream, "stream_version": None}
    try:
        yield settings.model_copy(update=unserved)
    finally:
        shutil.rmtree(home, ignore_errors=True)


DIGITS = 38
LAST_EPOCH = 2**62

FLUSH_SECONDS = 30.0
BUFFERED = 10_000  # less than the client's buffer takes
MOST_POINTS = 1_000
"""Limit of points: one point is one epoch, and thousands take minutes."""
TOPIC_CONFIG = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**63 - 1)}


def pipeline_of(setting: Setting, topic: str) -> Pipeline:
    """Return the pipeline that does with a topic what a setting says.

    Raises:
        DefinitionError: Its numbers do not fit into a column.
    """
    return Pipeline(
        name="scenario",
        source=Topic(
            name=topic,
            schema=f"key string, event_time timestamp NOT NULL, value {_number_type(setting)}",
            event_time="event_time",
        ),
        key=("key",),
        window=setting.window,
        measures={"value_": _measure(setting.measure)},
        lateness=Lateness(allowed=f"{(setting.allowed_lateness or 0) // 1000} milliseconds"),
        trigger=setting.trigger,
        accumulation=setting.accumulation,
        max_rows_per_epoch=1,
    )


def record_of(setting: Setting, row: InputRow) -> bytes:
    """Write `key`, `event_time` and `value` as JSON bytes."""
    moment = from_micros(row.event_time).isoformat()
    value = _value(setting, row)
    number = "null" if value is None else f"{value:f}"
    return f'{{"key": {json.dumps(_key_text(row.key))}, "event_time": "{moment}", "value": {number}}}'.encode()


def outcome_of(setting: Setting, pipeline: Pipeline, log: EpochLog) -> Outcome:
    """Return what an epoch log says came out, if each of its epochs with data holds one row of the one partition.

    Raises:
        LakeError: It does not hold every row, as the scenario has it.
    """
    _reject_lost(setting, log)
    story = pane_rows.read_history(log.table, pipeline)
    waiting = [Waiting(window=window, key=_key(key), rows=rows) for window, key, rows in story.unshown_rows if rows]
    return Outcome(
        panes=tuple(_pane(setting, pane) for pane in story.panes),
        dropped=_collect_dropped(setting, log, story),
        waiting=tuple(sorted(waiting, key=lambda waiting_row: in_order(waiting_row.window, waiting_row.key))),
    )


def _reject_lost(setting: Setting, log: EpochLog) -> None:
    records = log.records()
    windowed = (Class.ACCEPTED, Class.LATE)
    other = sum(n for record in records for name, n in record.counts.items() if name not in windowed)
    read = sum(record.end.get(0, 0) - record.start.get(0, 0) for record in records)
    if other or read != len(setting.rows):
        msg = (
            f"Scenario: expected an epoch log that holds each of "
            f"{count_noun(len(setting.rows), 'point')}, it has read {read} "
        )
        msg += f"and refused {other}.\nHint: `--runner reference` takes any text as a key."
        raise LakeError(msg)


def _pane(setting: Setting, pane: Pane) -> Pane:
    value = _finish_measure(setting.measure, pane.value[0])
    return replace(pane, key=_key(pane.key), value=value)


def _collect_dropped(setting: Setting, log: EpochLog, story: pane_rows.PaneHistory) -> tuple[Dropped, ...]:
    rows, began = arriving(setting), {record.epoch: record.start.get(0, 0) for record in log.records()}
    ended = [(began[epoch], window, DropReason.TRIGGER_ENDED) for epoch, window in story.dropped]
    late = [(offset, window, DropReason.TOO_LATE) for offset, window in _list_late_rows(log)]
    return tuple(
        Dropped(row=rows[offset], window=window, reason=reason) for offset, window, reason in sorted([*ended, *late])
    )


def _list_late_rows(log: EpochLog) -> list[tuple[int, Interval]]:
    """(offset, window) of each row of class late in the ledger."""
    with queries.open_duckdb() as connection:
        log.relation(connection, "ledger", epoch=LAST_EPOCH)
        query = f"SELECT *, _positions[1].offset AS at FROM ledger WHERE _class = '{Class.LATE}'"  # noqa: S608 -- ours
        table = queries.query_table(connection, query)
    return list(zip(pane_values.list_values(table["at"]), pane_values.list_row_windows(table), strict=True))


def _measure(measure: Measure) -> Measure:
    return measure if isinstance(measure, Count) else replace(measure, expression="value")


def _finish_measure(measure: Measure, partial: Partial) -> object:
    return finish_measure(measure, partial.states if isinstance(measure, Avg) else partial.states[0])


def _value(setting: Setting, row: InputRow) -> Decimal | None:
    column = setting.measure.expression
    value = None if column is None else row.columns[column]
    return None if value is None else Decimal(value)


def _number_type(setting: Setting) -> str:
    """Return a type that takes every number of a setting, and their sum."""
    values = [value for row in setting.rows if (value := _value(setting, row)) is not None]
    scale = max((-int(value.as_tuple().exponent) for value in values), default=0)
    scale = max(scale, 0)
    total = sum(abs(value) for value in values)
    if total >= 10 ** (DIGITS - scale):
        msg = f"points: expected numbers whose sum has at most {DIGITS} digits with {scale} behind the point."
        raise DefinitionError(msg + "\nHint: `--runner reference` takes any.")
    return f"decimal({DIGITS},{scale})"


def _key_text(key: Key) -> str | None:
    """Put the type first, so that texts sort as the keys of a pane do."""
    return None if key is None else f"{type(key).__name__} {key}"


def _key(text: Key) -> Key:
    if not isinstance(text, str):
        return None
    kind, _, key = text.partition(" ")
    return int(key) if kind == "int" else key


class Script:
    """Clock and time policy of a scenario. Time advances only with the stream."""

    def __init__(self, setting: Setting) -> None:
        self.closes = setting.allowed_lateness is not None
        self.settles = self.epoch_ends = False
        self._at, self._watermark = 0, -FOREVER

    def now(self) -> datetime:
        """Return the scenario's processing time."""
        return from_micros(self._at)

    def monotonic(self) -> float:
        """In seconds, of the script's clock."""
        return self._at / 1_000_000

    def advance(self, state: WatermarkState, observed: Observation, lateness: Lateness) -> WatermarkState:  # noqa: ARG002 -- every policy's signature
        """Return the scenario's watermark; no partition is ever idle."""
        return WatermarkState(watermark=None if self._watermark == -FOREVER else self._watermark)

    def append_row(self, row: InputRow) -> None:
        """Move to a row's arrival: more of its moment may follow."""
        self._at, self.settles, self.epoch_ends = row.processing_time, False, False

    def end(self, moment: Ends) -> bool:
        """Move to the end of a moment; return whether more changes by it than the time."""
        changes = moment.epoch_ends or moment.watermark != self._watermark
        self._at, self._watermark = moment.at, moment.watermark
        self.settles, self.epoch_ends = True, moment.epoch_ends
        return changes


class ScriptedStream(MicrobatchEngine):
    """A stream of which each epoch with data is one row, in the order of the scenario."""

    def __init__(
        self, context: DriverContext, committer: Committer, beginning: StartOffsets, *, setting: Setting, script: Script
    ) -> None:
        super().__init__(context, committer, beginning)
        self._script = script
        self._course: Iterator[Comes | Ends] = schedule_events(setting, self._due)
        self._coming: InputRow | None = None  # its turn has come, and no epoch holds it yet
        self.limit = {0: len(setting.rows)}

    def poll(self) -> None:
        """Read the log's ends; only the script advances time."""
        with self.lock:
            self.continuity.note_ends(self.continuity.read_ends(dict(self.position)), prove=False)

    def play_out(self) -> None:
        """Run the remaining steps once all rows are in."""
        with self.lock:
            if self._next_row() is not None:
                msg = f"Scenario: expected all {self.limit} rows in epochs, got {dict(self.position)}."
                raise LakeError(msg)

    def _process_epoch(self, batch: "DataFrame", number: int) -> int:
        span = self._plan(number).span
        if span > 1:
            msg = f"Scenario: expected one row an epoch, Spark read {span}."
            raise LakeError(msg)
        if not span:
            return 0
        self._coming = self._coming or self._next_row()
        if self._coming is None:
            msg = "Scenario: expected as many rows as it has, got one more."
            raise LakeError(msg)
        self._script.append_row(self._coming)
        continues = super()._process_epoch(batch, number)
        self._coming = None if continues else self._coming
        return continues

    def _next_row(self) -> InputRow | None:
        """Let moments end until a row comes, and return it; None after everything."""
        for happening in self._course:
            if isinstance(happening, Comes):
                return happening.row
            due = self._due()
            if self._script.end(happening) or (due is not None and due <= happening.at):
                self.tick(self._advance({}, self.position))
        return None

    def _due(self) -> int | None:
        return self.state.due


def run(setting: Setting) -> Outcome:
    """Return what comes out of a setting on the streaming path of this installation.

    Raises:
        CutoverError: No broker answers, or the stream cannot run.
    """
    return run_with(load_settings(), setting)


def run_with(settings: Settings, setting: Setting) -> Outcome:
    """Run as `run` does, under given settings, on a separate topic."""
    if len(setting.rows) > MOST_POINTS:
        msg = f"points: expected at most {MOST_POINTS} on the streaming path, where each is an epoch, got "
        msg += f"{len(setting.rows)}.\nHint: `--runner reference` takes a million."
        raise DefinitionError(msg)
    client = LogClient(settings)
    topic = f"cutover-simulate-{uuid.uuid4().hex}"
    pipeline = pipeline_of(setting, topic)
    with _topic(client, topic), open_scratch_home(settings, client, "simulate") as scratch_settings:
        spark.start_early(settings, app="cutover-simulate")
        _send(scratch_settings, setting, topic)
        spark.session(settings, app="cutover-simulate")  # of the installation: its files outlive the scenario
        script, place = Script(setting), run_folder(scratch_settings, pipeline.name)
        place.mkdir(parents=True)
        context = DriverContext(
            lake=PipelineLake(scratch_settings, pipeline),
            client=client,
            clock=script,
            probe=silent,
            beat=HeartbeatWriter(place / "heartbeat.json", first_beat(new_run_id(), script), seconds=1, clock=script),
            place=place,
            time_policy=script,
        )
        committer, beginning = driver.prepare_stream(context)
        stream = ScriptedStream(context, committer, beginning, setting=setting, script=script)
        if not stream.drained:
            driver.run_queries(context, stream)
        stream.play_out()
        return outcome_of(setting, pipeline, EpochLog(committer.version.uri))


@contextmanager
def _topic(client: LogClient, topic: str) -> Iterator[None]:
    client.create_topic(topic, partitions=1, config=TOPIC_CONFIG)
    try:
        yield
    finally:
        client.delete_topic(topic)


def _send(settings: Settings, setting: Setting, topic: str) -> None:
    """Write the rows in the order in which they arrive; log timestamps are such that no row is from the future."""
    refused: list[KafkaError] = []

    def note_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    bootstrap = str(settings.kafka.bootstrap_servers)
    producer = Producer(
        {**options.make_librdkafka_options(settings.kafka, bootstrap), "enable.idempotence": True, "log_level": 0}
    )
    for number, row in enumerate(arriving(setting)):
        at, value = max(0, -(-row.event_time // 1000)), record_of(setting, row)
        producer.produce(topic, value, partition=0, timestamp=at, on_delivery=note_delivery)
        if number % BUFFERED == BUFFERED - 1:
            producer.flush(FLUSH_SECONDS)
    unsent = producer.flush(FLUSH_SECONDS)
    if refused or unsent:
        reason = refused[0].str() if refused else f"{unsent} without an answer after {FLUSH_SECONDS:g} s"
        msg = f"Topic `{topic}`: expected every point to be taken, got: {reason}.\nHint: simulate it again."
        raise LogError(msg)
