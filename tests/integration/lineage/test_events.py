"""OpenLineage events of runs: the offsets read, the versions written, and the end of each run."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutover.batch import recompute
from cutover.definition import Pipeline
from cutover.errors import CutoverError
from cutover.log.kafka import LogClient
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import run_reconciliation
from cutover.settings import LineageSettings, Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.servers.alerting import listening

EVENTS = [Event(id=i, minute=i, partition=i % 2) for i in range(40)]
Told = dict[str, Any]


@pytest.fixture
def clicks(kafka_settings: Settings, topic_name: str, spark: SparkSession) -> tuple[Settings, Pipeline]:  # noqa: ARG001 -- the session that all share
    settings = rig.fast(kafka_settings)
    rig.make_topic(settings, topic_name, partitions=2)
    rig.send(settings, topic_name, EVENTS)
    return settings, rig.pipeline(topic_name)


def with_listener(settings: Settings, **whom: object) -> Settings:
    return settings.model_copy(update={"lineage": LineageSettings.model_validate(whom)})


def run_all(lake: PipelineLake) -> Report:
    assert driver.run_driver(lake, until="drain") == 0
    assert recompute.recompute_windows(lake) is not None
    return run_reconciliation(lake)


def select_job_events(events: list[Told], job: str) -> list[Told]:
    return [event for event in events if event["job"]["name"] == job]


def read(file: Path) -> list[Told]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def ranges(event: Told, topic: str) -> list[dict[str, int]]:
    (topic_input,) = [dataset for dataset in event["inputs"] if dataset["name"] == topic]
    assert topic_input["namespace"].startswith("kafka://127.0.0.1:")
    offsets: list[dict[str, int]] = topic_input["inputFacets"]["cutover_offsets"]["ranges"]
    return offsets


def table_version(tables: list[Told], uri: str) -> int:
    (dataset,) = [table for table in tables if (table["namespace"], table["name"]) == ("file", uri)]
    return int(dataset["facets"]["version"]["datasetVersion"])


@pytest.mark.quick
def test_each_run_tells_what_it_read_and_wrote(clicks: tuple[Settings, Pipeline], tmp_path: Path) -> None:
    settings, pipeline = clicks
    file, topic = tmp_path / "new" / "events.jsonl", pipeline.source.name

    report = run_all(PipelineLake(with_listener(settings, file=file), pipeline))

    events = read(file)
    whole_log = [{"partition": p, "from": 0, "to": end} for p, end in sorted(LogClient(settings).latest(topic).items())]
    for job in ("clicks.stream", "clicks.batch", "clicks.reconcile"):
        states = select_job_events(events, job)
        assert [state["eventType"] for state in states] == ["START", "COMPLETE"]
        assert len({state["run"]["runId"] for state in states}) == 1
    stream, batch, compared = (
        select_job_events(events, f"clicks.{task}")[-1] for task in ("stream", "batch", "reconcile")
    )
    assert ranges(stream, topic) == whole_log
    assert ranges(batch, topic) == whole_log
    assert ranges(compared, topic) == [
        {"partition": offset_range["partition"], "to": offset_range["to"]} for offset_range in whole_log
    ]
    lake = PipelineLake(settings, pipeline)
    assert [dataset["name"] for dataset in stream["outputs"]] == [lake.stream_uri(0)]
    batch_version = table_version(batch["outputs"], lake.batch_uri())
    assert table_version(compared["inputs"], lake.batch_uri()) == batch_version
    assert compared["run"]["facets"]["cutover_result"]["verdict"] == str(report.finding.verdict)


def test_a_second_driver_and_a_second_batch_run_tell_of_what_is_new_alone(
    clicks: tuple[Settings, Pipeline], tmp_path: Path
) -> None:
    settings, pipeline = clicks
    run_all(PipelineLake(settings, pipeline))
    rig.send(settings, pipeline.source.name, [Event(id=99, minute=200)])
    file = tmp_path / "events.jsonl"

    run_all(PipelineLake(with_listener(settings, file=file), pipeline))

    ends = {event["job"]["name"]: event for event in read(file)}
    (new,) = [
        offset_range
        for offset_range in ranges(ends["clicks.batch"], pipeline.source.name)
        if offset_range["partition"] == 0
    ]
    assert new["to"] - new["from"] == 1
    assert new in ranges(ends["clicks.stream"], pipeline.source.name)


def test_a_driver_that_runs_tells_now_and_then(clicks: tuple[Settings, Pipeline], tmp_path: Path) -> None:
    settings, pipeline = clicks
    file = tmp_path / "events.jsonl"

    driver.run_driver(PipelineLake(with_listener(settings, file=file, every_seconds=0.05), pipeline), until="drain")

    states = [event["eventType"] for event in read(file)]
    assert (states[0], states[-1]) == ("START", "COMPLETE")
    assert set(states[1:-1]) == {"RUNNING"}


def test_a_run_that_fails_says_so(kafka_settings: Settings, topic_name: str, tmp_path: Path) -> None:
    pipeline, file = rig.pipeline(topic_name), tmp_path / "events.jsonl"

    with pytest.raises(CutoverError):
        recompute.recompute_windows(PipelineLake(with_listener(kafka_settings, file=file), pipeline))

    assert [event["eventType"] for event in read(file)] == ["START", "FAIL"]


def test_a_server_is_sent_the_same(clicks: tuple[Settings, Pipeline]) -> None:
    settings, pipeline = clicks

    with listening() as (url, hook):
        driver.run_driver(PipelineLake(with_listener(settings, url=url), pipeline), until="drain")

    assert [body["eventType"] for _, body in hook.got] == ["START", "COMPLETE"]


@pytest.mark.parametrize("trouble", ["no server", "it refuses", "no folder"])
def test_a_listener_that_is_not_there_ends_nothing(
    clicks: tuple[Settings, Pipeline], tmp_path: Path, trouble: str, capfd: pytest.CaptureFixture[str]
) -> None:
    settings, pipeline = clicks
    (tmp_path / "file").write_text("")

    with listening(500) as (url, _):
        whom = {"no server": {"url": "http://127.0.0.1:9"}, "it refuses": {"url": url}}
        listener = whom.get(trouble, {"file": tmp_path / "file" / "events.jsonl"})
        driver.run_driver(PipelineLake(with_listener(settings, **listener), pipeline), until="drain")

    output = capfd.readouterr()
    assert rig.count_by_cell(PipelineLake(settings, pipeline)) == rig.expect_cells(EVENTS)
    assert (output.out + output.err).count("lineage_not_sent") == 1
