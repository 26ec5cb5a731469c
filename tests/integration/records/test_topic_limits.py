"""Records that a topic would reject: named with limit and line before anything is sent, and none that it accepts."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from cutover.clock import SystemClock
from cutover.definition import Pipeline
from cutover.errors import LogError
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.records.sending import transmit as topics
from cutover.records.sending.produce import Request, produce
from cutover.settings import Settings
from tests.support.log.sent_files import LINES, SILENT, numbers, records, send, write_numbered
from tests.support.suite.until import until


def test_message_of_8_mb_is_sent(kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = b'{"at":1357035420,"seen":1357035420,"i":1,"k":"' + b"x" * (8 * 1024 * 1024 - 48) + b'"}'
    path.write_bytes(line + b"\n")
    no_key = replace(pipeline, key=("d",), derive={"d": "i"})

    send(PipelineLake(kafka_settings, no_key), Request(file=path, partitions=1, confirm=True))

    assert [len(r.value or b"") for r in records(kafka_settings, pipeline.source.name)] == [8 * 1024 * 1024]


@pytest.mark.quick
def test_topic_that_would_delete_old_records_is_refused(
    kafka_settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    LogClient(kafka_settings).create_topic(pipeline.source.name, partitions=1, config={"retention.ms": "3600000"})

    with pytest.raises(LogError, match=r"expected retention\.ms=-1"):
        send(PipelineLake(kafka_settings, pipeline), Request(file=file))


@pytest.mark.quick
def test_another_number_of_partitions_is_refused(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    LogClient(kafka_settings).create_topic(pipeline.source.name, partitions=1, config=topics.CONFIG)

    with pytest.raises(LogError, match="expected 2 partitions, it has 1"):
        send(PipelineLake(kafka_settings, pipeline), Request(file=file, partitions=2))


@pytest.mark.quick
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
        send(PipelineLake(kafka_settings, pipeline), Request(file=file))
    assert client.high_watermarks(name) == {0: 0}


@pytest.mark.quick
def test_a_log_time_far_in_the_future_is_named_and_no_topic_is_left(
    kafka_settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    file.write_bytes(LINES + b"1357035300,4102444800,z,5\n")

    with pytest.raises(
        LogError, match=r"message\.timestamp\.after\.max\.ms=3,600,000, got 2100-01-01T00:00:00Z \(line 6"
    ):
        send(PipelineLake(kafka_settings, pipeline), Request(file=file))
    assert pipeline.source.name not in LogClient(kafka_settings).topics()


@pytest.mark.quick
def test_records_without_a_key_are_refused_for_a_compacted_topic(
    kafka_settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    config = {**topics.CONFIG, "cleanup.policy": "compact"}
    LogClient(kafka_settings).create_topic(pipeline.source.name, partitions=1, config=config)
    no_key = replace(pipeline, key=("d",), derive={"d": "i"})

    with pytest.raises(LogError, match=r"expected a key in every record.*compact, got none \(line 2"):
        send(PipelineLake(kafka_settings, no_key), Request(file=file))


@pytest.mark.parametrize("length", [10, 60, 1_000, 20_000])
def test_a_record_is_refused_only_if_the_broker_would_reject_it(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path, length: int
) -> None:
    client, name = LogClient(kafka_settings), pipeline.source.name
    path = tmp_path / "one.csv"
    path.write_text(f"at,seen,k,i\n1357035300,1357035420,{Random(1).randbytes(length).hex()[:length]},1\n")  # noqa: S311 -- a text that does not compress
    client.create_topic(name, partitions=1, config={**topics.CONFIG, "max.message.bytes": "50"})
    lake = PipelineLake(kafka_settings, pipeline)
    with pytest.raises(LogError, match=r"at least [\d,]+, got") as refused:
        send(lake, Request(file=path))
    required = int(str(refused.value).split("at least ")[1].split(", got")[0].replace(",", ""))

    set_config(client, name, "max.message.bytes", str(required))
    assert send(lake, Request(file=path)) == 1

    (message,) = client.messages(name, {0: (0, 1)}, "read_uncommitted")
    set_config(client, name, "max.message.bytes", str(required - 1))
    with pytest.raises(LogError, match=r"at least"):
        send(lake, Request(file=path, resend=True))
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

    lake = PipelineLake(kafka_settings, pipeline)
    with pytest.raises(LogError, match=r"\(line 2 of the file\).*message\.timestamp\.before\.max\.ms=120,000"):
        produce(lake, Request(file=path), clock=SlowClock(), progress=SILENT)

    set_config(client, name, "message.timestamp.before.max.ms", "600000")
    assert send(lake, Request(file=path)) == 3
    assert numbers(records(kafka_settings, name)) == [0, 1, 2]


def test_small_records_are_sent_to_a_topic_with_a_small_limit(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    config = {**topics.CONFIG, "max.message.bytes": "2000"}
    LogClient(kafka_settings).create_topic(pipeline.source.name, partitions=1, config=config)
    path = write_numbered(tmp_path / "many.csv", range(3_000))

    assert send(PipelineLake(kafka_settings, pipeline), Request(file=path)) == 3_000
