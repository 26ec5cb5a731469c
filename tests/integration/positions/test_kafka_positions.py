"""Positions by what a real broker knows: groups, the topics' ends, times of records, and gaps of landed copies."""

import json
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from deltalake import CommitProperties, write_deltalake

from cutover.cli.position import cut, position
from cutover.log.kafka import LogClient
from cutover.output.console import Output
from cutover.positions.log_check import GroupRequest, RunTimes, find_group_position, find_run_position
from cutover.positions.position import FORMAT, Position, PositionReport, UnknownPosition
from cutover.settings import Settings
from cutover.timestamps import to_micros
from tests.support.log import compacted
from tests.support.suite.until import until

SECOND, MILLISECOND = 1_000_000, 1_000


@pytest.fixture
def client(kafka_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> LogClient:
    """Return a client of the tests' broker, which commands use as well."""
    monkeypatch.setenv("CUTOVER_KAFKA__BOOTSTRAP_SERVERS", str(kafka_settings.kafka.bootstrap_servers))
    return LogClient(kafka_settings)


def make(client: LogClient, topic: str, partitions: int = 1, *, time: str = "CreateTime") -> None:
    config = {"retention.ms": "-1", "message.timestamp.type": time}
    client.create_topic(topic, partitions=partitions, config=config)
    client.high_watermarks(topic)  # answered once each partition has a leader


def send(client: LogClient, topic: str, count: int, *, partition: int = 0, at: int | None = None) -> None:
    producer = Producer({"bootstrap.servers": client.bootstrap, "linger.ms": 1, "enable.idempotence": True})
    for number in range(count):
        value, stamp = f"{number}".encode(), 0 if at is None else at + number  # 0: now
        producer.produce(topic, value, key=value, partition=partition, timestamp=stamp)
    assert producer.flush(30) == 0


def begin_transaction(client: LogClient, topic: str, count: int) -> Producer:
    producer = Producer({"bootstrap.servers": client.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, f"{number}".encode(), partition=0)
    assert producer.flush(30) == 0
    return producer


def send_transactions(client: LogClient, topic: str) -> None:
    """Write offsets 0 to 2, a marker, an aborted record and its marker, offsets 6 and 7 and a marker."""
    begin_transaction(client, topic, 3).commit_transaction()
    begin_transaction(client, topic, 1).abort_transaction()
    begin_transaction(client, topic, 2).commit_transaction()
    until(lambda: client.latest(topic)[0] == 9)


def commit(client: LogClient, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": client.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, p, offset) for p, offset in offsets.items()], asynchronous=False)
    consumer.close()


def read_group(client: LogClient, topic: str, wait: Callable[[float], None] = lambda _: None) -> PositionReport:
    request = GroupRequest(group=topic, topics=(topic,), rows_within=0)
    return find_group_position(client, request, read_version=lambda: 7, wait=wait)


def get_bounds(report: PositionReport) -> dict[int, tuple[int, int]]:
    assert isinstance(report.position, Position), report.position
    ((topic, lower),) = report.position.topics.items()
    upper = report.position.upto or report.position.topics
    return {partition: (offset, upper[topic][partition]) for partition, offset in lower.items()}


def get_reason(report: PositionReport) -> str:
    assert isinstance(report.position, UnknownPosition), report.position
    return report.position.reason


def get_document(output: Output) -> Any:
    return json.loads(json.dumps(output.document))


@pytest.mark.quick
def test_a_group_at_the_end_is_exact_and_one_behind_is_bounded(
    client: LogClient, topic_name: str, tmp_path: Path
) -> None:
    make(client, topic_name, partitions=2)
    send(client, topic_name, 5)
    write_deltalake(str(tmp_path), pa.table({"n": [1]}))

    def show() -> Any:
        output = position(group=topic_name, topic=[topic_name], rows_within="0 seconds", table=str(tmp_path))
        return output.exit_code, get_document(output)

    exit_code, document = show()
    assert (exit_code, document["level"]) == (2, "unknown")
    commit(client, topic_name, topic_name, {0: 3})
    exit_code, document = show()
    assert (exit_code, document["level"]) == (0, "bounded")
    assert document["position"]["topics"] == {topic_name: {"0": 3, "1": 0}}
    assert document["position"]["upto"] == {topic_name: {"0": 5, "1": 0}}
    assert document["position"]["table"] == {"version": 0}
    commit(client, topic_name, topic_name, {0: 5})
    assert show()[1]["level"] == "exact"


def test_a_group_of_two_topics_of_which_one_is_empty(client: LogClient, topic_name: str) -> None:
    topics = (topic_name, f"{topic_name}-empty")
    for topic in topics:
        make(client, topic)
    send(client, topic_name, 5)
    commit(client, topic_name, topic_name, {0: 4})

    document = get_document(position(group=topic_name, topic=list(topics), rows_within="0 seconds"))

    assert document["position"]["topics"] == {topics[0]: {"0": 4}, topics[1]: {"0": 0}}
    assert document["position"]["upto"] == {topics[0]: {"0": 5}, topics[1]: {"0": 0}}
    assert "while the command ran" in document["notes"][0]


def test_a_group_behind_a_marker_of_a_transaction_is_exact(client: LogClient, topic_name: str) -> None:
    make(client, topic_name)
    send_transactions(client, topic_name)
    commit(client, topic_name, topic_name, {0: 8})

    assert get_bounds(read_group(client, topic_name)) == {0: (8, 8)}
    commit(client, topic_name, topic_name, {0: 7})
    assert get_bounds(read_group(client, topic_name)) == {0: (7, 9)}


def test_a_compacted_topic_may_have_lost_records_behind_a_group(
    client: LogClient, kafka_settings: Settings, topic_name: str
) -> None:
    make(client, topic_name)
    send_transactions(client, topic_name)
    commit(client, topic_name, topic_name, {0: 8})
    compacted.begin(kafka_settings, topic_name)
    until(lambda: client.config(topic_name)["cleanup.policy"] == "compact")

    assert get_bounds(read_group(client, topic_name)) == {0: (8, 9)}


def test_a_group_that_moves_meanwhile_keeps_its_lower_bound(client: LogClient, topic_name: str) -> None:
    make(client, topic_name)
    send(client, topic_name, 5)
    commit(client, topic_name, topic_name, {0: 2})

    report = read_group(client, topic_name, lambda _: commit(client, topic_name, topic_name, {0: 4}))

    assert get_bounds(report) == {0: (2, 5)}
    assert report.notes == ("The group has moved in 1 of its partitions meanwhile.",)
    report = read_group(client, topic_name, lambda _: commit(client, topic_name, topic_name, {0: 1}))
    assert "went back from offset 4 to 1" in get_reason(report)


def test_a_topic_that_is_created_again_meanwhile_makes_the_position_unknown(client: LogClient, topic_name: str) -> None:
    make(client, topic_name)
    send(client, topic_name, 5)
    commit(client, topic_name, topic_name, {0: 5})

    def create_again(_: float) -> None:
        client.delete_topic(topic_name)
        make(client, topic_name)
        send(client, topic_name, 9)

    assert get_reason(read_group(client, topic_name, create_again))
    assert get_reason(read_group(client, topic_name)).startswith(
        "the group has committed no offset"
    )  # Kafka removed it
    commit(client, topic_name, topic_name, {0: 12})
    assert "beyond the log's end, 9" in get_reason(read_group(client, topic_name))


@pytest.mark.quick
def test_a_recorded_position_is_compared_with_its_topic(client: LogClient, topic_name: str, tmp_path: Path) -> None:
    make(client, topic_name)
    send(client, topic_name, 5)
    topic_ids = {topic_name: client.topic_id(topic_name)}

    def show(offset: int, **fields: object) -> Any:
        text = json.dumps({"format": FORMAT, "topics": {topic_name: {"0": offset}}, **fields})
        metadata = CommitProperties(custom_metadata={"userMetadata": text})
        write_deltalake(str(tmp_path), pa.table({"n": [1]}), mode="overwrite", commit_properties=metadata)
        return get_document(position(table=str(tmp_path), check_log=True))

    assert show(5, topic_ids=topic_ids)["level"] == "exact"
    assert "beyond the log's end, 5" in show(6)["unknown"]
    admin = AdminClient({"bootstrap.servers": client.bootstrap})
    admin.create_partitions([NewPartitions(topic_name, 2)])[topic_name].result()
    until(lambda: client.partitions(topic_name) == (0, 1))
    assert show(5)["level"] == "exact"  # the new partition is empty
    send(client, topic_name, 2, partition=1)
    assert show(5)["position"]["upto"] == {topic_name: {"0": 5, "1": 2}}
    client.delete_topic(topic_name)
    assert "has no topic" in show(5)["unknown"]
    make(client, topic_name)
    send(client, topic_name, 7)
    assert "was created again" in show(5, topic_ids=topic_ids)["unknown"]


def pick_moment(client: LogClient, topic: str) -> int:
    """Return a time of another millisecond than all records before and after it."""
    newest = max(client.newest_times(topic).values())
    until(lambda: time.time_ns() // 1_000 >= newest + MILLISECOND, every=0.001)
    moment = to_micros(datetime.now(tz=UTC))
    until(lambda: time.time_ns() // 1_000 >= moment + 2 * MILLISECOND, every=0.001)
    return moment


@pytest.fixture
def run_topic(client: LogClient, topic_name: str) -> tuple[str, RunTimes]:
    """Return a topic with 3 records before a run, 2 during it and 4 after it, and its times."""
    make(client, topic_name, partitions=2, time="LogAppendTime")
    send(client, topic_name, 3)
    start = pick_moment(client, topic_name)
    send(client, topic_name, 2)
    times = RunTimes(start=start, end=pick_moment(client, topic_name))
    send(client, topic_name, 4)
    return topic_name, times


def test_times_of_a_run_are_bounds(client: LogClient, run_topic: tuple[str, RunTimes]) -> None:
    topic, times = run_topic

    assert get_bounds(find_run_position(client, (topic,), times)) == {0: (3, 5), 1: (0, 0)}
    later = RunTimes(start=times.end, end=times.end + SECOND)
    assert get_bounds(find_run_position(client, (topic,), later)) == {0: (5, 9), 1: (0, 0)}
    much_later = RunTimes(start=times.end + 60 * SECOND, end=times.end + 61 * SECOND)
    assert get_bounds(find_run_position(client, (topic,), much_later)) == {0: (9, 9), 1: (0, 0)}
    long_ago = RunTimes(start=0, end=SECOND)
    assert get_bounds(find_run_position(client, (topic,), long_ago)) == {0: (0, 0), 1: (0, 0)}


def test_records_that_were_deleted_prove_no_lower_bound(client: LogClient, run_topic: tuple[str, RunTimes]) -> None:
    topic, times = run_topic
    admin, before = AdminClient({"bootstrap.servers": client.bootstrap}), TopicPartition(topic, 0, 4)
    admin.delete_records([before])[before].result()
    until(lambda: client.earliest(topic)[0] == 4)

    assert get_bounds(find_run_position(client, (topic,), times)) == {0: (0, 5), 1: (0, 0)}


def test_times_of_producers_prove_nothing(client: LogClient, topic_name: str) -> None:
    make(client, topic_name)
    send(client, topic_name, 3)
    now = to_micros(datetime.now(tz=UTC))
    times = RunTimes(start=now, end=now)
    assert "CreateTime" in get_reason(find_run_position(client, (topic_name,), times))

    send(client, topic_name, 1, at=now // 1_000 + 3_600_000)
    change = ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic_name, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": client.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result()
    until(lambda: client.config(topic_name)["message.timestamp.type"] == "LogAppendTime")
    assert "its producer set" in get_reason(find_run_position(client, (topic_name,), times))


def test_an_open_transaction_proves_no_lower_bound(client: LogClient, topic_name: str) -> None:
    make(client, topic_name, time="LogAppendTime")
    send(client, topic_name, 2)
    producer = begin_transaction(client, topic_name, 2)
    start = pick_moment(client, topic_name)
    times = RunTimes(start=start, end=start)

    assert "still open" in get_reason(find_run_position(client, (topic_name,), times))
    producer.commit_transaction()
    until(lambda: client.latest(topic_name)[0] == 5)
    assert "offset 4" in get_reason(find_run_position(client, (topic_name,), times))
    after = pick_moment(client, topic_name)
    assert get_bounds(find_run_position(client, (topic_name,), RunTimes(start=after, end=after))) == {0: (5, 5)}


def land(client: LogClient, topic: str, place: Path, *, without: Collection[int] = ()) -> None:
    """Copy the committed records of a topic as Parquet."""
    place.mkdir(exist_ok=True)
    ranges = {0: (client.earliest(topic)[0], client.latest(topic)[0])}
    offsets = [offset for _, offset, _ in client.positions(topic, ranges) if offset not in without]
    rows = {"topic": [topic] * len(offsets), "partition": [0] * len(offsets), "offset": offsets}
    pq.write_table(pa.table(rows), place / "a.parquet")


def test_gaps_of_transactions_are_no_gaps(client: LogClient, topic_name: str, tmp_path: Path) -> None:
    make(client, topic_name)
    send_transactions(client, topic_name)
    land(client, topic_name, tmp_path)

    alone = get_document(position(landed=str(tmp_path)))
    compared = get_document(position(landed=str(tmp_path), check_log=True))

    assert (alone["level"], alone["position"]["topics"]) == ("bounded", {topic_name: {"0": 3}})
    assert (compared["level"], compared["position"]["topics"]) == ("exact", {topic_name: {"0": 8}})
    assert any("have no record in the log" in note or "has no record" in note for note in compared["notes"])


def test_a_record_that_was_not_landed_is_a_gap(client: LogClient, topic_name: str, tmp_path: Path) -> None:
    make(client, topic_name)
    send_transactions(client, topic_name)
    land(client, topic_name, tmp_path, without={1, 6})

    document = get_document(position(landed=str(tmp_path), check_log=True))

    assert document["level"] == "bounded"
    assert document["position"]["topics"] == {topic_name: {"0": 1}}
    assert document["position"]["upto"] == {topic_name: {"0": 8}}


def test_names_of_files_are_counted_in_the_log(client: LogClient, topic_name: str, tmp_path: Path) -> None:
    make(client, topic_name)
    send_transactions(client, topic_name)
    for start, count in ((0, 3), (6, 2)):
        (tmp_path / f"{topic_name}+0+{start:010d}.json").write_text("{}\n" * count)
    send(client, topic_name, 3)

    document = get_document(position(landed=str(tmp_path), check_log=True))
    assert (document["level"], document["position"]["topics"]) == ("exact", {topic_name: {"0": 8}})

    (tmp_path / f"{topic_name}+0+0000000000.json").write_text("{}\n" * 2)
    document = get_document(position(landed=str(tmp_path), check_log=True))
    assert (document["level"], document["position"]["topics"]) == ("bounded", {topic_name: {"0": 1}})

    (tmp_path / f"{topic_name}+0+0000000006.json").write_text("{}\n" * 20)
    assert get_document(position(landed=str(tmp_path), check_log=True))["level"] == "unknown"


def test_gaps_of_compaction_are_no_gaps(
    client: LogClient, kafka_settings: Settings, topic_name: str, tmp_path: Path
) -> None:
    make(client, topic_name)
    send(client, topic_name, 4)
    compacted.roll_segments(kafka_settings, topic_name)
    send(client, topic_name, 4)
    send(client, topic_name, 1)
    compacted.compact(kafka_settings, topic_name)
    compacted.disable_compaction(kafka_settings, topic_name)
    send(client, topic_name, 1)
    land(client, topic_name, tmp_path)
    alone = get_document(position(landed=str(tmp_path)))

    document = get_document(position(landed=str(tmp_path), check_log=True))

    assert (alone["level"], document["level"]) in {("bounded", "exact"), ("exact", "exact")}
    assert document["position"]["topics"] == {topic_name: {"0": 10}}


def test_a_copy_that_is_ahead_of_the_log_is_unknown(client: LogClient, topic_name: str, tmp_path: Path) -> None:
    make(client, topic_name)
    send(client, topic_name, 4)
    land(client, topic_name, tmp_path)
    client.delete_topic(topic_name)
    assert "has no topic" in get_document(position(landed=str(tmp_path), check_log=True))["unknown"]
    make(client, topic_name)
    send(client, topic_name, 2)

    assert "beyond the log's end, 2" in get_document(position(landed=str(tmp_path), check_log=True))["unknown"]


DEFINITION = """
from cutover.definition import Count, Fixed, Pipeline, Topic

pipeline = Pipeline(
    name="cut",
    source=Topic(name="{topic}", schema="n bigint, at timestamp", event_time="at"),
    key=("n",),
    window=Fixed(hours=1),
    measures={{"records": Count()}},
)
"""


@pytest.mark.quick
def test_a_cut_ends_where_the_topic_ends_now(
    client: LogClient, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(client, topic_name, 2)
    send(client, topic_name, 3, partition=1)
    (tmp_path / "cut.py").write_text(DEFINITION.format(topic=topic_name), encoding="utf-8")
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path))

    shown, exported = cut("cut"), cut("cut", env=True)

    offsets = {topic_name: {"0": 0, "1": 3}}
    stated: dict[str, Any] = json.loads(str(next(iter(shown.lines))))
    assert stated == shown.document
    assert (stated["topics"], stated["topic_ids"]) == (offsets, {topic_name: client.topic_id(topic_name)})
    variables = dict(str(line).split("=", 1) for line in exported.lines)
    assert json.loads(variables["CUTOVER_CUT"]) == offsets
    assert json.loads(variables["CUTOVER_POSITION"])["topic_ids"] == stated["topic_ids"]
    assert not set("".join(variables.values())) & set(" *?[")  # at which a shell would divide or expand them
