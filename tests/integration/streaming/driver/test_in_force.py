"""Settings recorded by both paths: read from the running engine, and a change of one is detected."""

from typing import TYPE_CHECKING

import pytest

from cutover.batch import recompute
from cutover.errors import CutoverError
from cutover.lake import batch_runs
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.run import run_reconciliation
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.source import query
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PINNED, OTHER = "spark.sql.mapKeyDedupPolicy", "spark.sql.json.enablePartialResults"


def send_events(settings: Settings, topic: str, first_id: int) -> None:
    rig.send(settings, topic, [Event(id=first_id + i, minute=first_id + i * 2) for i in range(5)])


def recompute_and_compare(lake: PipelineLake) -> Report:
    recompute.recompute_windows(lake)
    return run_reconciliation(lake)


def items(result: Report) -> set[str]:
    assert (result.finding.verdict, result.finding.exit_code) == (Verdict.NOT_COMPARABLE, 2)
    return {breach.message.split("`")[1] for breach in result.finding.seal.breaches if breach.code == "settings"}


def test_a_conf_that_changed_in_one_batch_run_is_mended_by_the_next(
    quick: Settings, topic: str, spark: "SparkSession"
) -> None:
    pipeline = rig.pipeline(topic)
    send_events(quick, topic, 0)
    lake = PipelineLake(quick, pipeline)
    driver.run_driver(lake, until="drain")
    recompute.recompute_windows(lake)
    send_events(quick, topic, 60)
    driver.run_driver(lake, until="drain")
    spark.conf.set(PINNED, "LAST_WIN")
    spark.conf.set(OTHER, "false")

    try:
        drifted = recompute_and_compare(lake)
    finally:
        spark.conf.set(PINNED, "EXCEPTION")
        spark.conf.unset(OTHER)
    mended = recompute_and_compare(lake)

    runs = batch_runs.read_effective_runs(lake)
    assert items(drifted) == {OTHER}  # a pinned one is set again before anything is read
    assert f"batch run {drifted.run.tables.batch_run} ran with `false`" in drifted.finding.seal.breaches[0].message
    assert mended.finding.verdict is Verdict.CONSISTENT
    # Under other settings a run reads the log from its beginning: one table holds one truth.
    assert [{start for start, _ in run.scanned.values()} for run in runs][1:] == [{0}, {0}]
    assert [run.in_force == runs[0].in_force for run in runs] == [True, False, True]


def test_a_conf_that_changed_between_epochs_is_named_with_the_epochs(
    quick: Settings, topic: str, spark: "SparkSession"
) -> None:
    pipeline = rig.pipeline(topic)
    send_events(quick, topic, 0)
    lake = PipelineLake(quick, pipeline)
    driver.run_driver(lake, until="drain")
    send_events(quick, topic, 60)
    spark.conf.set(OTHER, "false")

    try:
        driver.run_driver(lake, until="drain")
    finally:
        spark.conf.unset(OTHER)
    report = recompute_and_compare(lake)

    records = rig.records(lake)
    changed_epoch = next(r.epoch for r in records if r.in_force != records[0].in_force)
    assert items(report) == {OTHER}
    assert f"ran with `not set`; the stream in epochs {changed_epoch}" in report.finding.seal.breaches[
        0
    ].message.replace(f"epoch {changed_epoch} ran", f"epochs {changed_epoch} ran")
    assert [r.epoch for r in records if r.in_force_items] == [0, changed_epoch]  # whole once, then its digest alone


@pytest.mark.parametrize("side", ["stream", "batch"])
def test_isolation_is_that_of_the_client_and_not_of_the_definition(
    quick: Settings, topic: str, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    pipeline, source_options = rig.pipeline(topic), query.source_options
    send_events(quick, topic, 0)
    lake = PipelineLake(quick, pipeline)
    if side == "stream":

        def otherwise(settings: Settings, reading: query.QuerySource) -> dict[str, str]:
            return {**source_options(settings, reading), "kafka.isolation.level": "read_uncommitted"}

        monkeypatch.setattr(query, "source_options", otherwise)
        driver.run_driver(lake, until="drain")
    else:
        driver.run_driver(lake, until="drain")
        monkeypatch.setattr("cutover.records.reading.scan.ISOLATION", "kafka.made.up")

    report = recompute_and_compare(lake)

    messages = [breach.message for breach in report.finding.seal.breaches if breach.code == "isolation"]
    assert len(messages) == 1
    assert "read_committed" in messages[0]
    assert "read_uncommitted" in messages[0]


def test_a_pinned_conf_in_the_settings_stops_both_paths_before_they_begin(quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic)
    wrong = quick.model_copy(
        update={"spark": quick.spark.model_copy(update={"conf": {"spark.sql.ansi.enabled": "no"}})}
    )

    lake = PipelineLake(wrong, pipeline)
    with pytest.raises(CutoverError, match=r"cutover\.toml.*expected `spark.sql.ansi.enabled` = `true`, got .*`no`"):
        driver.run_driver(lake, until="drain")
    with pytest.raises(CutoverError, match=r"spark.sql.ansi.enabled"):
        recompute.recompute_windows(lake)
