"""Recorded costs of a real driver and a real batch run, and the output of `cutover cost`."""

import json
import time

import pytest
from pyspark.sql import SparkSession

from cutover.batch import recompute
from cutover.cli import definitions
from cutover.cli.app import main
from cutover.clock import SystemClock
from cutover.definition.loading import catalogue
from cutover.engine.usage import UsageMeter
from cutover.errors import DefinitionError
from cutover.lake import batch_runs
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog, EpochRecord
from cutover.lake.tables import delta
from cutover.output import console
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile import run
from cutover.reconcile.cli.gate import cost
from cutover.reconcile.cost import measure_costs
from cutover.reconcile.report import files, page
from cutover.reconcile.result.report import PathCosts
from cutover.settings import Settings
from cutover.streaming import driver
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

RECORDS = 120


def live(count: int) -> list[Event]:
    """Return records that are an hour apart from noon on in event time, and reach the log now."""
    now = (time.time() * 1e6 - rig.NOON) / rig.MINUTE
    return [Event(id=i, minute=i, key="ab"[i % 2], partition=i % 2, logged=now) for i in range(count)]


def read_records(lake: PipelineLake) -> list[EpochRecord]:
    version = versions.find_current_version(lake)
    assert version is not None
    return EpochLog(version.uri).records()


def both_paths(lake: PipelineLake, events: list[Event]) -> PathCosts:
    rig.send(lake.settings, lake.pipeline.source.name, events)
    driver.run_driver(lake, until="drain")
    recompute.recompute_windows(lake)
    report = run.run_reconciliation(lake)
    assert report.cost is not None
    stored = files.read_report(lake.settings, lake.name, report.run.run_id)
    assert stored.cost == report.cost
    assert "What both paths cost" in page.render_page(stored)
    return report.cost


def test_both_paths_leave_what_they_used(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic, cap=40)

    path_costs = both_paths(PipelineLake(quick, pipeline), live(RECORDS))

    assert (path_costs.streaming.records, path_costs.batch.records) == (RECORDS, RECORDS)
    assert (path_costs.streaming.unknown_runs, path_costs.batch.unknown_runs) == (0, 0)
    for path in (path_costs.streaming, path_costs.batch):
        assert path.core_seconds is not None
        assert path.read_bytes is not None
        assert path.written_bytes is not None
        assert path.core_seconds > 0
        assert path.read_bytes > RECORDS * 20  # each record is longer
        assert path.written_bytes > 0
    assert path_costs.streaming_delay.p99 is not None
    assert path_costs.batch_delay.p99 is not None
    assert 0 < path_costs.streaming_delay.p99 < path_costs.batch_delay.p99 < 300
    assert (path_costs.streaming_delay.records, path_costs.batch_delay.waiting, path_costs.replayed) == (RECORDS, 0, 0)
    assert [nine.nines for nine in path_costs.nines][:1] == [1]


def test_the_jvm_is_among_the_processes_that_are_counted(spark: SparkSession) -> None:
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr] # py4j has no types

    assert jvm in UsageMeter()._pids


def test_what_a_driver_says_to_have_written_is_what_its_table_lists(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic, cap=40)
    rig.send(quick, topic, live(RECORDS))
    lake = PipelineLake(quick, pipeline)
    driver.run_driver(lake, until="drain")

    epochs = read_records(lake)
    version = versions.find_current_version(lake)
    assert version is not None
    actions = delta.actions(delta.open_table(version.uri))
    last_files = [
        int(a["size_bytes"]) for a in actions if f"epoch-{epochs[-1].epoch}-" in a["path"] and "kind=epoch" in a["path"]
    ]

    assert len(last_files) == 1
    assert epochs[-1].cost is not None
    assert epochs[-1].cost.written_bytes == sum(int(a["size_bytes"]) for a in actions) - last_files[0]


def test_a_second_driver_counts_from_its_own_start(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic, cap=40)
    rig.send(quick, topic, live(RECORDS))
    lake = PipelineLake(quick, pipeline)
    driver.run_driver(lake, until="drain")
    first_cost = read_records(lake)
    rig.send(quick, topic, live(10))
    driver.run_driver(lake, until="drain")

    all_costs = read_records(lake)
    measured = measure_costs(lake, None)

    ends = [first_cost[-1].cost, all_costs[-1].cost]
    assert all_costs[-1].run_id != first_cost[-1].run_id
    assert measured.streaming.runs == 2
    assert measured.streaming.core_seconds == pytest.approx(sum(c.core_seconds or 0 for c in ends if c), abs=0.01)
    assert measured.streaming.records == RECORDS + 10


def test_records_of_the_past_are_in_no_delay(quick: Settings, topic: str) -> None:
    path_costs = both_paths(
        PipelineLake(quick, rig.pipeline(topic, cap=40)), [Event(id=i, minute=i) for i in range(30)]
    )

    assert (path_costs.replayed, path_costs.streaming_delay.records, path_costs.streaming_delay.p50) == (30, 0, None)
    assert path_costs.streaming.core_seconds is not None


@pytest.mark.quick
def test_command_shows_both_paths_and_refuses_where_nothing_is_known(
    quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = rig.pipeline(topic, cap=RECORDS)
    monkeypatch.setattr("cutover.reconcile.cli.gate.load_settings", lambda: quick)
    monkeypatch.setattr(catalogue, "get", lambda *_: pipeline)
    with pytest.raises(DefinitionError, match="expected an epoch under the definition in force"):
        cost(pipeline.name)
    both_paths(PipelineLake(quick, pipeline), live(RECORDS))
    capsys.readouterr()  # the log of the runs

    console.wrap_command(cost)(pipeline.name, as_json=True)
    costs = json.loads(capsys.readouterr().out)
    console.wrap_command(cost)(pipeline.name)
    output = capsys.readouterr().out

    monkeypatch.setattr(definitions, "load_settings", lambda: quick)
    main(["gate", pipeline.name, "show"])
    shown_at_gate = capsys.readouterr().out

    assert "the paths differ in 0 of" in " ".join(shown_at_gate.split())
    assert costs["streaming"]["records"] == RECORDS
    assert output.splitlines()[-1].startswith("Batch cost ")
    assert SystemClock().now().date().isoformat() in output


def test_a_run_of_an_older_release_is_unknown(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic, cap=40)
    rig.send(quick, topic, live(20))
    lake = PipelineLake(quick, pipeline)
    driver.run_driver(lake, until="drain")
    recompute.recompute_windows(lake)
    (batch_run,) = batch_runs.read_effective_runs(lake)
    older = json.loads(batch_run.to_json())
    del older["cost"]

    assert batch_runs.BatchRun.from_json(json.dumps(older)).cost is None
