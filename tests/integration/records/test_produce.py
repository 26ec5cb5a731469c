"""A file replayed into a real topic: order, log timestamps, partitions, and the memory of what was sent."""

import bz2
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from cutover.cli.init import init
from cutover.clock import SystemClock
from cutover.definition import Pipeline
from cutover.definition.loading import catalogue
from cutover.errors import DefinitionError, LogError
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.records.sending import transmit as topics
from cutover.records.sending.produce import Request, produce
from cutover.records.sending.rows import LogTimeRange
from cutover.settings import KafkaSettings, Settings
from tests.support.log.sent_files import LINES, SILENT, numbers, records, send, write_numbered
from tests.support.suite.until import until


@pytest.mark.quick
def test_records_are_in_log_time_order_with_the_datas_log_times(
    kafka_settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    produced = send(PipelineLake(kafka_settings, pipeline), Request(file=file, partitions=1))

    log_records = records(kafka_settings, pipeline.source.name)
    assert (produced, numbers(log_records)) == (4, [2, 1, 3, 4])
    assert [r.log_time_micros // 1_000_000 for r in log_records] == [1357035400, 1357035420, 1357035420, 1357035500]


def test_topic_is_made_so_that_old_records_stay(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    send(PipelineLake(kafka_settings, pipeline), Request(file=file))

    client, name = LogClient(kafka_settings), pipeline.source.name
    config = client.config(name)
    assert len(client.partitions(name)) == topics.DEFAULT_PARTITIONS
    assert {key: config[key] for key in topics.CONFIG} == topics.CONFIG


def test_records_go_round_robin_whatever_their_key(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    send(PipelineLake(kafka_settings, pipeline), Request(file=file, partitions=4))

    log_records = records(kafka_settings, pipeline.source.name)
    assert sorted(r.partition for r in log_records) == [0, 1, 2, 3]


def test_a_range_of_log_time_is_sent_alone(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    start, end = 1357035420 * 1_000_000, 1357035500 * 1_000_000

    lake = PipelineLake(kafka_settings, pipeline)
    assert send(lake, Request(file=file, partitions=1, log_times=LogTimeRange(start=start, end=end))) == 2
    assert send(lake, Request(file=file, log_times=LogTimeRange(end=start))) == 1
    assert numbers(records(kafka_settings, pipeline.source.name)) == [1, 3, 2]


def test_repeat_is_refused_and_again_sends_it(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    lake = PipelineLake(kafka_settings, pipeline)
    send(lake, Request(file=file))

    with pytest.raises(DefinitionError, match=r"was sent at .*\n.*nothing was sent; `--again` sends the file again"):
        send(lake, Request(file=file))
    assert send(lake, Request(file=file, resend=True)) == 4
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
    lake = PipelineLake(kafka_settings, pipeline)
    send(lake, Request(file=day))
    write_numbered(day, range(250), end="\r\n")

    grown = produce(lake, Request(file=day), clock=SystemClock(), progress=SILENT)

    assert (grown.records, grown.already_sent) == (50, 200)
    assert sorted(numbers(records(kafka_settings, pipeline.source.name))) == list(range(250))
    for suffix, pack in PACKINGS.items():
        copy = tmp_path / f"copy.csv.{suffix}"
        copy.write_bytes(pack(day.read_bytes()))
        with pytest.raises(DefinitionError, match=r"was sent at .* as `day\.csv`"):
            send(lake, Request(file=copy))
    write_numbered(day, range(300))
    packed = tmp_path / "renamed.csv.gz"
    packed.write_bytes(gzip.compress(day.read_bytes()))
    assert send(lake, Request(file=packed)) == 50


def test_json_lines_that_grew_send_their_new_records_alone(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    lines = [f'{{"at":{1357035300 + i},"seen":{1357035300 + i},"i":{i}}}\n' for i in range(30)]
    path.write_text("".join(lines[:20]), encoding="utf-8")
    lake = PipelineLake(kafka_settings, pipeline)
    send(lake, Request(file=path))
    path.write_text("\n" + "".join(lines), encoding="utf-8")

    assert send(lake, Request(file=path)) == 10


@pytest.mark.quick
def test_an_edited_copy_is_refused_with_the_line_from_which_it_differs(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    day = write_numbered(tmp_path / "day.csv", range(200))
    lake = PipelineLake(kafka_settings, pipeline)
    send(lake, Request(file=day))
    day.write_bytes(day.read_bytes().replace(b",k1,4\n", b",k1,4000\n"))

    with pytest.raises(DefinitionError, match=r"differs from line 6 on .*, which held 199 of its 200 records"):
        send(lake, Request(file=day))
    assert len(records(kafka_settings, pipeline.source.name)) == 200
    assert send(lake, Request(file=day, resend=True)) == 200


def test_another_file_of_the_same_name_is_sent(kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path) -> None:
    day = write_numbered(tmp_path / "day.csv", range(20))
    lake = PipelineLake(kafka_settings, pipeline)
    send(lake, Request(file=day))
    write_numbered(day, range(100, 120))

    assert send(lake, Request(file=day)) == 20


def test_stretches_that_overlap_send_each_record_once(
    kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path
) -> None:
    day, begin = write_numbered(tmp_path / "day.csv", range(100)), 1357035300 * 1_000_000
    stretch = LogTimeRange(start=begin + 20_000_000, end=begin + 60_000_000)
    second = LogTimeRange(start=begin + 40_000_000, end=begin + 80_000_000)

    expected_records = [
        send(PipelineLake(kafka_settings, pipeline), Request(file=day, log_times=part))
        for part in (stretch, second, LogTimeRange())
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
    lake = PipelineLake(kafka_settings, pipeline)
    for _ in range(2):
        with pytest.raises(PulledPlugError):
            produce(lake, Request(file=day), clock=SystemClock(), progress=cut)
    interrupted = len(records(kafka_settings, name))
    write_numbered(day, range(4_100))

    produced = produce(lake, Request(file=day), clock=SystemClock(), progress=SILENT)

    assert (produced.already_sent, produced.records) == (interrupted, 4_100 - interrupted)
    assert sorted(numbers(records(kafka_settings, name))) == list(range(4_100))
    with pytest.raises(DefinitionError, match="`--again`"):
        send(lake, Request(file=day))


def test_a_repeat_that_was_interrupted_is_resumed(kafka_settings: Settings, pipeline: Pipeline, tmp_path: Path) -> None:
    day, name = write_numbered(tmp_path / "day.csv", range(3_000)), pipeline.source.name
    lake = PipelineLake(kafka_settings, pipeline)
    send(lake, Request(file=day))
    request = Request(file=day, resend=True)
    with pytest.raises(PulledPlugError):
        produce(lake, request, clock=SystemClock(), progress=replace(SILENT, on_sent=pull_plug))

    send(lake, Request(file=day))

    assert sorted(numbers(records(kafka_settings, name))) == sorted([*range(3_000), *range(3_000)])


@pytest.mark.quick
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
    lake = PipelineLake(kafka_settings, pipeline)
    with pytest.raises(PulledPlugError):
        produce(lake, request, clock=SystemClock(), progress=replace(SILENT, on_sent=pull_plug))
    send(lake, Request(file=write_numbered(tmp_path / "other.csv", range(9_000, 9_100))))
    admin = AdminClient({"bootstrap.servers": LogClient(kafka_settings).bootstrap})
    for future in admin.delete_records([TopicPartition(name, 0, 5)]).values():
        future.result()

    with pytest.raises(
        LogError, match=r"partition 0: expected the records of an interrupted .* offset 0 on.* offset is 5"
    ):
        send(lake, Request(file=day))


def test_bad_line_sends_nothing_and_makes_no_topic(kafka_settings: Settings, pipeline: Pipeline, file: Path) -> None:
    file.write_bytes(LINES + b"1,soon,a,5\n")

    with pytest.raises(DefinitionError, match="line 6"):
        send(PipelineLake(kafka_settings, pipeline), Request(file=file))
    assert pipeline.source.name not in LogClient(kafka_settings).topics()
    assert list((kafka_settings.home / "produced").iterdir()) == []


def test_broker_that_does_not_answer_is_named_within_its_time(
    settings: Settings, pipeline: Pipeline, file: Path
) -> None:
    nobody = settings.model_copy(update={"kafka": KafkaSettings(bootstrap_servers="127.0.0.1:9", timeout_seconds=2)})

    with pytest.raises(LogError, match=r"127\.0\.0\.1:9: expected a broker, the connection was refused"):
        send(PipelineLake(nobody, pipeline), Request(file=file))


def test_definition_written_from_a_topic_loads(
    kafka_settings: Settings, pipeline: Pipeline, file: Path, tmp_path: Path
) -> None:
    send(PipelineLake(kafka_settings, pipeline), Request(file=file))
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
        send(PipelineLake(kafka_settings, pipeline), Request(file=file, partitions=1))
    assert pipeline.source.name not in LogClient(kafka_settings).topics()
