"""Replay a file into a topic: in log-time order, with the log timestamps of the data, each record once."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError, LogError
from cutover.log import options
from cutover.log.kafka import LogClient
from cutover.log.sending import topic
from cutover.log.sending.produced import Produced, ProducedRun, file_sha256
from cutover.log.sending.rows import ALL, FileRecord, Notes, Stretch, read_rows
from cutover.log.sending.spool import Spool
from cutover.settings import Settings

MILLIS = 1_000
FLUSH_SECONDS = 60.0

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to send."""

    file: Path
    stretch: Stretch = ALL
    speed: float | None = None  # how many times faster than the log times say; None: as fast as it goes
    partitions: int | None = None  # of a topic that is made; None: 4
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What was sent."""

    topic: str
    topic_id: str
    records: int
    seconds: float
    sha256: str
    ignored_columns: list[str]
    unfit_cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Who is told how far it is; `total` is called once, when the number of records is known."""

    read: Advance
    total: Advance
    sent: Advance


def produce(settings: Settings, pipeline: Pipeline, request: Request, *, clock: Clock, progress: Progress) -> Summary:
    """Send a file's records into the pipeline's topic.

    The whole file is read, and the times of all its records are checked, before the first one is sent.

    Raises:
        DefinitionError: The file, one of its lines or an argument cannot be used; it was sent before.
        LogError: The broker does not answer, or refuses a record.
    """
    if not request.file.is_file():
        msg = f"{request.file}: expected a CSV or JSON-lines file, found none."
        raise DefinitionError(msg)
    if pipeline.source.log_time is None and (request.stretch, request.speed) != (ALL, None):
        msg = f"Pipeline `{pipeline.name}`: expected `log_time` in its topic for --from, --to and --speed, got none."
        raise DefinitionError(msg)
    client = LogClient(settings)
    folder = settings.home.resolve() / "produced"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch, Spool(Path(scratch)) as spool:
        notes = Notes()
        _refuse_early(settings, pipeline, request, client)
        spool.fill(read_rows(request.file, pipeline, notes, request.stretch, progress.read))
        return _send_all(settings, pipeline, request, client, Sending(spool, notes, clock, progress))


def _refuse_early(settings: Settings, pipeline: Pipeline, request: Request, client: LogClient) -> None:
    """Know before a large file is read whether a broker answers and the file was sent before."""
    name = pipeline.source.name
    if name in client.topics() and not request.again:
        produced = Produced(settings.home.resolve(), client.describe(name).topic_id)
        produced.refuse_repeat(_make_run(request, 0, ""), name)


def _make_run(request: Request, records: int, at: str) -> ProducedRun:
    return ProducedRun(
        sha256=file_sha256(request.file),
        file=request.file.name,
        start=request.stretch.start,
        end=request.stretch.end,
        records=records,
        at=at,
        finished=False,
    )


@dataclass(frozen=True, slots=True)
class Sending:
    """What one run carries along."""

    spool: Spool
    notes: Notes
    clock: Clock
    progress: Progress


def _send_all(settings: Settings, pipeline: Pipeline, request: Request, client: LogClient, sending: Sending) -> Summary:
    began = sending.clock.monotonic()
    count = sending.spool.count
    log = topic.ready(client, pipeline.source.name, request.partitions, sending.spool, sending.clock)
    produced = Produced(settings.home.resolve(), log.topic_id)
    sent = _make_run(request, count, sending.clock.now().isoformat(timespec="microseconds"))
    sending.progress.total(count)
    produced.note(sent)
    rows = pace(sending.spool.read_sorted_rows(), request.speed, sending.clock)
    _send(settings, client, log.topic, rows, sending.progress.sent)
    produced.note(replace(sent, finished=True))
    return Summary(
        topic=log.topic,
        topic_id=log.topic_id,
        records=count,
        seconds=round(sending.clock.monotonic() - began, 3),
        sha256=sent.sha256,
        ignored_columns=sending.notes.ignored_columns,
        unfit_cells=sending.notes.unfit_cells,
    )


def pace(rows: Iterator[FileRecord], speed: float | None, clock: Clock) -> Iterator[FileRecord]:
    """Hold each record back until its log time, counted from the first one and `speed` times faster."""
    began, first = clock.monotonic(), None
    for row in rows:
        if speed is not None and row.log_micros is not None:
            first = row.log_micros if first is None else first
            due = began + (row.log_micros - first) / 1_000_000 / speed
            while (wait := due - clock.monotonic()) > 0:
                sleep(min(wait, 0.5))
        yield row


def _send(settings: Settings, client: LogClient, name: str, rows: Iterator[FileRecord], advance: Advance) -> None:
    refused: list[KafkaError] = []

    def note_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer(_producer_options(settings, client))
    partitions = client.partitions(name)
    try:
        for number, row in enumerate(rows, start=1):
            _put(producer, name, row, partitions[number % len(partitions)], note_delivery)
            if number % 1_000 == 0:
                advance(1_000)
                _check(name, refused)
        left = producer.flush(FLUSH_SECONDS)
    except KafkaException as error:
        raise _make_send_error(name, error.args[0].str()) from error
    _check(name, refused)
    if left:
        raise _make_send_error(name, f"{left} records without an answer after {FLUSH_SECONDS:g} s")


def _put(
    producer: Producer,
    name: str,
    row: FileRecord,
    partition: int,
    delivered: Callable[[KafkaError | None, Message], None],
) -> None:
    """Hand over one record; waits while the client's buffer is full.

    Round robin, whatever the key: a replay reads each partition in proportion to its size, so partitions by key drift
    apart in event time by days, and nothing would be judged as it was when it happened.
    """
    timestamp = 0 if row.log_micros is None else row.log_micros // MILLIS  # 0: the client's own time
    while True:
        try:
            producer.produce(
                name, value=row.value, key=row.key, on_delivery=delivered, partition=partition, timestamp=timestamp
            )
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _producer_options(settings: Settings, client: LogClient) -> dict[str, str | int | float | bool]:
    return {
        **options.librdkafka(settings.kafka, client.bootstrap),
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 20,
        "compression.type": "lz4",
        "message.max.bytes": 9 * 1024 * 1024,
        "queue.buffering.max.kbytes": 65_536,
        "message.timeout.ms": int(FLUSH_SECONDS * MILLIS),
        "log_level": 0,
    }


def _check(name: str, refused: list[KafkaError]) -> None:
    if refused:
        raise _make_send_error(name, f"{refused[0].str()} ({len(refused)} records)")


def _make_send_error(name: str, detail: str) -> LogError:
    msg = f"Topic `{name}`: expected every record to be taken, got: {detail}."
    return LogError(msg + "\nHint: a part of the file is in the topic; `--again` sends all of it once more.")
