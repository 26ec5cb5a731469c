"""A file replayed into a real topic: order, log timestamps, partitions, and the memory of what was sent."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutover.cli.init import init
from cutover.clock import SystemClock
from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError, LogError
from cutover.log.kafka import LogClient, RawRecord
from cutover.log.sending import topic as topics
from cutover.log.sending.produce import Progress, Request, produce
from cutover.log.sending.rows import Stretch
from cutover.settings import KafkaSettings, Settings

LINES = b"""at,seen,k,i
1357035300,1357035420,a,1
1357035301,1357035400,b,2
1357035302,1357035420,a,3
1357035303,1357035500,,4
"""


def nothing(count: int) -> None:
    """Tell nobody."""
    assert count >= 0


SILENT = Progress(read=nothing, total=nothing, sent=nothing)


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


def numbers(found: list[RawRecord]) -> list[int]:
    return [int((r.value or b"").split(b'"i":')[1].rstrip(b"}")) for r in found]


def test_records_are_in_log_time_order_with_the_datas_log_times(
    kafka_settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    sent = send(kafka_settings, pipeline, Request(file=file, partitions=1))

    found = records(kafka_settings, pipeline.source.name)
    assert (sent, numbers(found)) == (4, [2, 1, 3, 4])
    assert [r.log_time_micros // 1_000_000 for r in found] == [1357035400, 1357035420, 1357035420, 1357035500]


def test_topic_is_made_so_that_old_records_stay(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    send(kafka_settings, pipeline, Request(file=file))

    client, name = LogClient(kafka_settings), pipeline.source.name
    config = client.config(name)
    assert len(client.partitions(name)) == topics.DEFAULT_PARTITIONS
    assert {key: config[key] for key in topics.CONFIG} == topics.CONFIG


def test_records_go_round_robin_whatever_their_key(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    send(kafka_settings, pipeline, Request(file=file, partitions=4))

    found = records(kafka_settings, pipeline.source.name)
    assert sorted(r.partition for r in found) == [0, 1, 2, 3]


def test_a_range_of_log_time_is_sent_alone(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    start, end = 1357035420 * 1_000_000, 1357035500 * 1_000_000

    assert send(kafka_settings, pipeline, Request(file=file, partitions=1, stretch=Stretch(start=start, end=end))) == 2
    assert send(kafka_settings, pipeline, Request(file=file, stretch=Stretch(end=start))) == 1
    assert numbers(records(kafka_settings, pipeline.source.name)) == [1, 3, 2]


def test_repeat_is_refused_and_again_sends_it(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    send(kafka_settings, pipeline, Request(file=file))

    with pytest.raises(DefinitionError, match="`--again` sends it once more"):
        send(kafka_settings, pipeline, Request(file=file))
    assert send(kafka_settings, pipeline, Request(file=file, again=True)) == 4
    assert len(records(kafka_settings, pipeline.source.name)) == 8


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

    with pytest.raises(LogError, match="expected 2 partitions, it is there with 1"):
        send(kafka_settings, pipeline, Request(file=file, partitions=2))


def test_refused_records_are_an_error_of_the_log(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    config = {**topics.CONFIG, "message.timestamp.before.max.ms": "1000"}
    LogClient(kafka_settings).create_topic(pipeline.source.name, partitions=1, config=config)

    with pytest.raises(LogError, match="expected every record to be taken"):
        send(kafka_settings, pipeline, Request(file=file))


def test_broker_that_does_not_answer_is_named_within_its_time(
    settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    nobody = settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers="127.0.0.1:9", timeout_seconds=2)})

    with pytest.raises(LogError, match=r"127\.0\.0\.1:9: expected an answer within 2 s"):
        send(nobody, pipeline, Request(file=file))


def test_definition_written_from_a_topic_loads(
    kafka_settings: Settings, pipeline: Pipeline, file: Path, tmp_path: Path
) -> None:
    send(kafka_settings, pipeline, Request(file=file))
    settings = kafka_settings.model_copy(update={"pipelines": tmp_path / "pipelines"})

    init(settings, "mine", pipeline.source.name)

    written = catalogue.get(settings, "mine")
    assert (written.source.name, written.source.event_time, written.key) == (pipeline.source.name, "at", ("k",))


def test_unknown_topic_is_named(kafka_settings: Settings, topic_name: str) -> None:
    with pytest.raises(LogError, match=topic_name):
        init(kafka_settings, "mine", topic_name)
