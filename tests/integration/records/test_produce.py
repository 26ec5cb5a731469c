"""A file replayed into a real topic: order, log timestamps, partitions, and the memory of what was sent."""

import bz2
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from cutover.cli.log import init
from cutover.clock import SystemClock
from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError, LogError
from cutover.log.kafka import LogClient, RawRecord
from cutover.records.sending import topic as topics
from cutover.records.sending.produce import Progress, Request, produce
from cutover.records.sending.rows import LogTimeRange
from cutover.settings import KafkaSettings, Settings
from tests.support.suite.until import until

LINES = b"""at,seen,k,i
1357035300,1357035420,a,1
1357035301,1357035400,b,2
1357035302,1357035420,a,3
1357035303,1357035500,,4
"""


def nothing(count: int) -> None:
    """Tell nobody."""
    assert count >= 0


SILENT = Progress(on_read=nothing, on_total=nothing, on_sent=nothing)


@pytest.fixture
def pipeline(topic_name: str) -> Pipeline:
    source = Topic(
        name=topic_name,
        schema="at timestamp, seen timestamp, k string, i int",
        event_time="at",
        log_time="seen",
        time_format="seconds",
    )
    return Pipeline(name="p", source=source, key=("k",), window=Fixed(hours=1), measures={"n": Count()})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_bytes(LINES)
    return path


def send(settings: Settings, pipeline: Pipeline, request: Request) -> int:
    return produce(settings, pipeline, request, clock=SystemClock(), progress=SILENT).records


def records(settings: Settings, name: str) -> list[RawRecord]:
    client = LogClient(settings)
    return [r for p, end in client.latest(name).items() for r in client.read_range(name, p, 0, end)]


def numbers(raw_records: list[RawRecord]) -> list[int]:
    return [int((r.value or b"").split(b'"i":')[1].rstrip(b"}")) for r in raw_records]


def write_numbered(path: Path, ids: Iterable[int], *, end: str = "\n") -> Path:
    """Write a file whose records are numbered, one second of log time apart."""
    lines = (f"{1357035300 + i},{1357035300 + i},k{i % 3},{i}" for i in ids)
    path.write_bytes("".join(f"{line}{end}" for line in ("at,seen,k,i", *lines)).encode())
    return path


def test_records_are_in_log_time_order_with_the_datas_log_times(
    kafka_settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    produced = send(kafka_settings, pipeline, Request(file=file, partitions=1))

    log_records = records(kafka_settings, pipeline.source.name)
    assert (produced, numbers(log_records)) == (4, [2, 1, 3, 4])
    assert [r.log_time_micros // 1_000_000 for r in log_records] == [1357035400, 1357035420, 1357035420, 1357035500]


def test_topic_is_made_so_that_old_records_stay(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    send(kafka_settings, pipeline, Request(file=file))

    client, name = LogClient(kafka_settings), pipeline.source.name
    config = client.config(name)
    assert len(client.partitions(name)) == topics.DEFAULT_PARTITIONS
    assert {key: config[key] for key in topics.CONFIG} == topics.CONFIG


def test_records_go_round_robin_whatever_their_key(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    send(kafka_settings, pipeline, Request(file=file, partitions=4))

    log_records = records(kafka_settings, pipeline.source.name)
    assert sorted(r.partition for r in log_records) == [0, 1, 2, 3]


def test_a_range_of_log_time_is_sent_alone(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    start, end = 1357035420 * 1_000_000, 1357035500 * 1_000_000

    assert (
        send(kafka_settings, pipeline, Request(file=file, partitions=1, log_times=LogTimeRange(start=start, end=end)))
        == 2
    )
    assert send(kafka_settings, pipeline, Request(file=file, log_times=LogTimeRange(end=start))) == 1
    assert numbers(records(kafka_settings, pipeline.source.name)) == [1, 3, 2]


def test_repeat_is_refused_and_again_sends_it(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    send(kafka_settings, pipeline, Request(file=file))

    with pytest.raises(DefinitionError, match=r"was sent at .*\n.*nothing was sent; `--again` sends the file again"):
        send(kafka_settings, pipeline, Request(file=file))
    assert send(kafka_settings, pipeline, Request(file=file, resend=True)) == 4
    assert len(records(kafka_settings, pipeline.source.name)) == 8


def pack_zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(content)
    return bytes(sink.getvalue())


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": pack_zstd,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


def test_a_file_that_grew_sends_its_new_records_alone_and_a_copy_sends_nothing(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    day = write_numbered(tmp_path / "day.csv", range(200))
    send(kafka_settings, pipeline, Request(file=day))
    write_numbered(day, range(250), end="\r\n")

    grown = produce(kafka_settings, pipeline, Request(file=day), clock=SystemClock(), progress=SILENT)

    assert (grown.records, grown.already_sent) == (50, 200)
    assert sorted(numbers(records(kafka_settings, pipeline.source.name))) == list(range(250))
    for suffix, pack in PACKINGS.items():
        copy = tmp_path / f"copy.csv.{suffix}"
        copy.write_bytes(pack(day.read_bytes()))
        with pytest.raises(DefinitionError, match=r"was sent at .* as `day\.csv`"):
            send(kafka_settings, pipeline, Request(file=copy))
    write_numbered(day, range(300))
    packed = tmp_path / "renamed.csv.gz"
    packed.write_bytes(gzip.compress(day.read_bytes()))
    assert send(kafka_settings, pipeline, Request(file=packed)) == 50


def test_json_lines_that_grew_send_their_new_records_alone(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    lines = [f'{{"at":{1357035300 + i},"seen":{1357035300 + i},"i":{i}}}\n' for i in range(30)]
    path.write_text("".join(lines[:20]), encoding="utf-8")
    send(kafka_settings, pipeline, Request(file=path))
    path.write_text("\n" + "".join(lines), encoding="utf-8")

    assert send(kafka_settings, pipeline, Request(file=path)) == 10


def test_an_edited_copy_is_refused_with_the_line_from_which_it_differs(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    day = write_numbered(tmp_path / "day.csv", range(200))
    send(kafka_settings, pipeline, Request(file=day))
    day.write_bytes(day.read_bytes().replace(b",k1,4\n", b",k1,4000\n"))

    with pytest.raises(DefinitionError, match=r"differs from line 6 on .*, which held 199 of its 200 records"):
        send(kafka_settings, pipeline, Request(file=day))
    assert len(records(kafka_settings, pipeline.source.name)) == 200
    assert send(kafka_settings, pipeline, Request(file=day, resend=True)) == 200


def test_another_file_of_the_same_name_is_sent(kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path) -> None:
    day = write_numbered(tmp_path / "day.csv", range(20))
    send(kafka_settings, pipeline, Request(file=day))
    write_numbered(day, range(100, 120))

    assert send(kafka_settings, pipeline, Request(file=day)) == 20


def test_stretches_that_overlap_send_each_record_once(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    day, begin = write_numbered(tmp_path / "day.csv", range(100)), 1357035300 * 1_000_000
    stretch = LogTimeRange(start=begin + 20_000_000, end=begin + 60_000_000)
    second = LogTimeRange(start=begin + 40_000_000, end=begin + 80_000_000)

    expected_records = [
        send(kafka_settings, pipeline, Request(file=day, log_times=part)) for part in (stretch, second, LogTimeRange())
    ]

    assert expected_records == [40, 20, 40]
    assert sorted(numbers(records(kafka_settings, pipeline.source.name))) == list(range(100))


DEFINITION = """
from cutover.definition import Count, Fixed, Pipeline, Topic

pipeline = Pipeline(
    name="killed",
    source=Topic(
        name="{topic}",
        schema="at timestamp, seen timestamp, k string, i int",
        event_time="at",
        log_time="seen",
        time_format="seconds",
    ),
    key=("k",),
    window=Fixed(hours=1),
    measures={{"n": Count()}},
)
"""


class PulledPlugError(Exception):
    """The process ends here."""


def pull_plug(_: int) -> None:
    """End a run while it sends."""
    raise PulledPlugError


def test_an_interrupted_run_is_resumed_from_what_the_log_holds(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    day, name = write_numbered(tmp_path / "day.csv", range(4_000)), pipeline.source.name
    cut = replace(SILENT, on_sent=pull_plug)
    for _ in range(2):
        with pytest.raises(PulledPlugError):
            produce(kafka_settings, pipeline, Request(file=day), clock=SystemClock(), progress=cut)
    interrupted = len(records(kafka_settings, name))
    write_numbered(day, range(4_100))

    produced = produce(kafka_settings, pipeline, Request(file=day), clock=SystemClock(), progress=SILENT)

    assert (produced.already_sent, produced.records) == (interrupted, 4_100 - interrupted)
    assert sorted(numbers(records(kafka_settings, name))) == list(range(4_100))
    with pytest.raises(DefinitionError, match="`--again`"):
        send(kafka_settings, pipeline, Request(file=day))


def test_a_repeat_that_was_interrupted_is_resumed(kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path) -> None:
    day, name = write_numbered(tmp_path / "day.csv", range(3_000)), pipeline.source.name
    send(kafka_settings, pipeline, Request(file=day))
    request = Request(file=day, resend=True)
    with pytest.raises(PulledPlugError):
        produce(kafka_settings, pipeline, request, clock=SystemClock(), progress=replace(SILENT, on_sent=pull_plug))

    send(kafka_settings, pipeline, Request(file=day))

    assert sorted(numbers(records(kafka_settings, name))) == sorted([*range(3_000), *range(3_000)])


def test_a_killed_process_is_resumed_exactly(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day, client = write_numbered(tmp_path / "day.csv", range(600)), LogClient(kafka_settings)
    name, folder = pipeline.source.name, tmp_path / "pipelines"
    folder.mkdir()
    (folder / "killed.py").write_text(DEFINITION.format(topic=name), encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(kafka_settings.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(folder))
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", client.bootstrap)
    words = [sys.executable, "-m", "cutover.cli.app", "produce", str(day), "--pipeline", "killed"]
    with subprocess.Popen([*words, "--speed", "10x"]) as running:
        until(lambda: name in client.topics() and sum(client.high_watermarks(name).values()) > 20)
        os.kill(running.pid, signal.SIGKILL)
    record_count = len(records(kafka_settings, name))

    second_send = subprocess.run([*words, "--json"], check=True, capture_output=True, text=True)

    assert record_count <= json.loads(second_send.stdout)["already_sent"] < 600
    assert sorted(numbers(records(kafka_settings, name))) == list(range(600))


def test_an_interrupted_run_whose_records_left_the_log_is_not_resumed(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    day, name = write_numbered(tmp_path / "day.csv", range(3_000)), pipeline.source.name
    request = Request(file=day, partitions=1)
    with pytest.raises(PulledPlugError):
        produce(kafka_settings, pipeline, request, clock=SystemClock(), progress=replace(SILENT, on_sent=pull_plug))
    send(kafka_settings, pipeline, Request(file=write_numbered(tmp_path / "other.csv", range(9_000, 9_100))))
    admin = AdminClient({"bootstrap.servers": LogClient(kafka_settings).bootstrap})
    for future in admin.delete_records([TopicPartition(name, 0, 5)]).values():
        future.result()

    with pytest.raises(
        LogError, match=r"partition 0: expected the records of an interrupted .* offset 0 on.* offset is 5"
    ):
        send(kafka_settings, pipeline, Request(file=day))


def test_bad_line_sends_nothing_and_makes_no_topic(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    file.write_bytes(LINES + b"1,soon,a,5\n")

    with pytest.raises(DefinitionError, match="line 6"):
        send(kafka_settings, pipeline, Request(file=file))
    assert pipeline.source.name not in LogClient(kafka_settings).topics()
    assert list((kafka_settings.home / "produced").iterdir()) == []


def test_message_of_8_mb_is_sent(kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = b'{"at":1357035420,"seen":1357035420,"i":1,"k":"' + b"x" * (8 * 1024 * 1024 - 48) + b'"}'
    path.write_bytes(line + b"\n")
    no_key = replace(pipeline, key=("d",), derive={"d": "i"})

    send(kafka_settings, no_key, Request(file=path, partitions=1))

    assert [len(r.value or b"") for r in records(kafka_settings, pipeline.source.name)] == [8 * 1024 * 1024]


def test_topic_that_would_delete_old_records_is_refused(
    kafka_settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    LogClient(kafka_settings).create_topic(pipeline.source.name, partitions=1, config={"retention.ms": "3600000"})

    with pytest.raises(LogError, match=r"expected retention\.ms=-1"):
        send(kafka_settings, pipeline, Request(file=file))


def test_another_number_of_partitions_is_refused(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    LogClient(kafka_settings).create_topic(pipeline.source.name, partitions=1, config=topics.CONFIG)

    with pytest.raises(LogError, match="expected 2 partitions, it has 1"):
        send(kafka_settings, pipeline, Request(file=file, partitions=2))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"message.timestamp.before.max.ms": "1000"},
            r"message\.timestamp\.before\.max\.ms=1,000, got 2013-01-01T10:16:40Z \(line 3 of the file\)",
        ),
        ({"max.message.bytes": "100"}, r"max\.message\.bytes of at least 1\d\d, got 100 \(line 5"),
    ],
)
def test_what_a_topic_would_refuse_is_named_with_limit_and_line_and_nothing_is_sent(
    kafka_settings: Settings, pipeline: Pipeline, file: Path, config: dict[str, str], expected: str
) -> None:
    client, name = LogClient(kafka_settings), pipeline.source.name
    client.create_topic(name, partitions=1, config={**topics.CONFIG, **config})

    with pytest.raises(LogError, match=expected):
        send(kafka_settings, pipeline, Request(file=file))
    assert client.high_watermarks(name) == {0: 0}


def test_a_log_time_far_in_the_future_is_named_and_no_topic_is_left(
    kafka_settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    file.write_bytes(LINES + b"1357035300,4102444800,z,5\n")

    with pytest.raises(
        LogError, match=r"message\.timestamp\.after\.max\.ms=3,600,000, got 2100-01-01T00:00:00Z \(line 6"
    ):
        send(kafka_settings, pipeline, Request(file=file))
    assert pipeline.source.name not in LogClient(kafka_settings).topics()


def test_records_without_a_key_are_refused_for_a_compacted_topic(
    kafka_settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    config = {**topics.CONFIG, "cleanup.policy": "compact"}
    LogClient(kafka_settings).create_topic(pipeline.source.name, partitions=1, config=config)
    no_key = replace(pipeline, key=("d",), derive={"d": "i"})

    with pytest.raises(LogError, match=r"expected a key in every record.*compact, got none \(line 2"):
        send(kafka_settings, no_key, Request(file=file))


@pytest.mark.parametrize("length", [10, 60, 1_000, 20_000])
def test_a_record_is_refused_only_if_the_broker_would_reject_it(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path, length: int
) -> None:
    client, name = LogClient(kafka_settings), pipeline.source.name
    path = tmp_path / "one.csv"
    path.write_text(f"at,seen,k,i\n1357035300,1357035420,{Random(1).randbytes(length).hex()[:length]},1\n")  # noqa: S311 -- a text that does not compress
    client.create_topic(name, partitions=1, config={**topics.CONFIG, "max.message.bytes": "50"})
    with pytest.raises(LogError, match=r"at least [\d,]+, got") as refused:
        send(kafka_settings, pipeline, Request(file=path))
    required = int(str(refused.value).split("at least ")[1].split(", got")[0].replace(",", ""))

    set_config(client, name, "max.message.bytes", str(required))
    assert send(kafka_settings, pipeline, Request(file=path)) == 1

    (message,) = client.messages(name, {0: (0, 1)}, "read_uncommitted")
    set_config(client, name, "max.message.bytes", str(required - 1))
    with pytest.raises(LogError, match=r"at least"):
        send(kafka_settings, pipeline, Request(file=path, resend=True))
    assert produce_directly(client, name, message) == KafkaError.MSG_SIZE_TOO_LARGE


def set_config(client: LogClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": client.bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    assert until(lambda: client.config(topic)[name] == value)


def produce_directly(client: LogClient, topic: str, message: Message) -> int | None:
    """Send a message again without compression, and return the broker's error code."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": client.bootstrap, "compression.type": "none"})
    producer.produce(
        topic,
        message.value(),
        message.key(),
        headers=message.headers(),
        timestamp=message.timestamp()[1],
        on_delivery=lambda error, _: errors.append(error),
    )
    producer.flush(30)
    (error,) = errors
    return None if error is None else error.code()


class SlowClock(SystemClock):
    """Clock that is behind by a minute, as if the start of a run were a minute ago."""

    def now(self) -> datetime:
        return super().now() - timedelta(minutes=1)


def test_a_record_that_is_too_old_when_it_arrives_is_named_and_a_rerun_sends_it(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    client, name = LogClient(kafka_settings), pipeline.source.name
    config = {**topics.CONFIG, "message.timestamp.before.max.ms": "120000"}
    client.create_topic(name, partitions=1, config=config)
    path, age = tmp_path / "old.csv", SystemClock().now().timestamp() - 150
    path.write_text("at,seen,k,i\n" + "".join(f"{int(age) + i},{int(age) + i},k,{i}\n" for i in range(3)))

    with pytest.raises(LogError, match=r"\(line 2 of the file\).*message\.timestamp\.before\.max\.ms=120,000"):
        produce(kafka_settings, pipeline, Request(file=path), clock=SlowClock(), progress=SILENT)

    set_config(client, name, "message.timestamp.before.max.ms", "600000")
    assert send(kafka_settings, pipeline, Request(file=path)) == 3
    assert numbers(records(kafka_settings, name)) == [0, 1, 2]


def test_small_records_are_sent_to_a_topic_with_a_small_limit(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    config = {**topics.CONFIG, "max.message.bytes": "2000"}
    LogClient(kafka_settings).create_topic(pipeline.source.name, partitions=1, config=config)
    path = write_numbered(tmp_path / "many.csv", range(3_000))

    assert send(kafka_settings, pipeline, Request(file=path)) == 3_000


def test_broker_that_does_not_answer_is_named_within_its_time(
    settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    nobody = settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers="127.0.0.1:9", timeout_seconds=2)})

    with pytest.raises(LogError, match=r"127\.0\.0\.1:9: expected a broker, the connection was refused"):
        send(nobody, pipeline, Request(file=file))


def test_definition_written_from_a_topic_loads(
    kafka_settings: Settings, pipeline: Pipeline, file: Path, tmp_path: Path
) -> None:
    send(kafka_settings, pipeline, Request(file=file))
    settings = kafka_settings.model_copy(update={"pipelines": tmp_path / "pipelines"})

    init(settings, "mine", pipeline.source.name)

    catalogue_entry = catalogue.get(settings, "mine")
    assert (catalogue_entry.source.name, catalogue_entry.source.event_time, catalogue_entry.key) == (
        pipeline.source.name,
        "at",
        ("k",),
    )


def test_unknown_topic_is_named(kafka_settings: Settings, topic_name: str) -> None:
    with pytest.raises(LogError, match=topic_name):
        init(kafka_settings, "mine", topic_name)


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", b""), ("a.csv", b"at,seen,k,i\n"), ("a.jsonl", b""), ("a.jsonl", b"\n")]
)
def test_a_file_without_records_is_named_and_nothing_is_sent(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path, name: str, content: bytes
) -> None:
    file = tmp_path / name
    file.write_bytes(content)

    with pytest.raises(DefinitionError, match=name):
        send(kafka_settings, pipeline, Request(file=file, partitions=1))
    assert pipeline.source.name not in LogClient(kafka_settings).topics()
