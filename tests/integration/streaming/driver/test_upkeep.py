"""Folds and overflow files: other files, the same rows, and no file that a reader holds is deleted."""

from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
from pyspark.sql import SparkSession

from cutover.clock import SystemClock
from cutover.definition import Pipeline
from cutover.lake.control import pins, versions
from cutover.lake.control.versions import Version
from cutover.pipeline_lake import PipelineLake, control_uri
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.compaction import compactor
from cutover.streaming.sink import committer
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.drivers.fed import Fed, HandClock
from tests.support.history.older_copy import restored_after

EVENTS = [Event(id=i, minute=i / 4, key="ab"[i % 2], partition=i % 2) for i in range(200)]
EVENTS += [Event(id=1000 + i, minute=0, logged=60, partition=0) for i in range(20)]  # late


LAST_WAIT = 34
PINNED = 6


def read_up_to_pin(quick: Settings, topic: str) -> tuple[Settings, Pipeline, Version]:
    """Return an installation that folds often, whose stream has read all epochs up to the one to be pinned."""
    settings = rig.fast(quick, fold_every=6, reload_every=10)
    pipeline = rig.pipeline(topic, cap=6)
    rig.send(settings, topic, EVENTS[: 6 * (PINNED + 1)])
    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")
    version = versions.find_current_version(lake)
    assert version is not None
    return settings, pipeline, version


@pytest.mark.quick
def test_fold_keeps_every_cell_and_every_pinned_epoch(spark: SparkSession, quick: Settings, topic: str) -> None:
    lake = PipelineLake(rig.fast(quick, fold_every=3, reload_every=4), rig.pipeline(topic))
    rig.send(lake.settings, topic, EVENTS)
    fed, clock, pinned = Fed(spark, lake, HandClock()), SystemClock(), 3
    ends = [Counter(event.partition for event in EVENTS[:size]) for size in (30, 60, 90, 120, 150, 180, 200, 220)]
    for end in ends[: pinned + 1]:
        fed.feed(end)
    version = fed.stream.committer.version
    later = clock.now() + timedelta(hours=1)
    pins.pin(lake.settings, version, pinned, holder="test", expires_at=later, now=clock.now())
    at_pin = rig.count_by_cell(lake, epoch=pinned)
    for end in ends[pinned + 1 :]:
        fed.feed(end)
    late = rig.count_by_cell(lake, classes=["late"])

    fed.compact()

    table = rig.epoch_log(lake).table
    folded = {(f.first_epoch, f.last_epoch) for f in compactor.list_files(table) if f.kind == "partial" and f.span > 1}
    epochs = rig.records(lake)
    assert rig.expect_cells(EVENTS) == rig.count_by_cell(lake)
    assert at_pin == rig.count_by_cell(lake, epoch=pinned)
    assert late == rig.count_by_cell(lake, classes=["late"]) != {}
    assert {(first <= pinned, last <= pinned) for first, last in folded} == {(True, True), (False, False)}
    assert list(range(len(epochs))) == [e.epoch for e in epochs]
    assert (len(epochs) - 1) == table.transaction_version(version.app_id)
    assert epochs[-1] == committer.read_newest_epoch_record(table)


def test_nothing_is_folded_by_an_older_copy_of_the_pins_and_the_stream_goes_on(quick: Settings, topic: str) -> None:
    settings, pipeline, version = read_up_to_pin(quick, topic)
    clock = SystemClock()
    pin_epoch = partial(pins.pin, settings, version, expires_at=clock.now() + timedelta(hours=1), now=clock.now())
    pin_epoch(0, holder="before")
    with restored_after(settings, control_uri(settings, "pins")):
        pin_epoch(PINNED, holder="test")
    rig.send(settings, topic, EVENTS[6 * (PINNED + 1) :])

    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    files = compactor.list_files(rig.epoch_log(lake).table)
    assert rig.expect_cells(EVENTS) == rig.count_by_cell(lake)
    assert [f for f in files if f.kind == "partial" and f.first_epoch <= PINNED < f.last_epoch] == []
    assert len(rig.records(lake)) > LAST_WAIT


def test_epoch_with_many_partial_rows_is_written_by_spark_and_listed_by_the_driver(quick: Settings, topic: str) -> None:
    settings = rig.fast(quick, overflow_rows=5)
    pipeline = rig.pipeline(topic, cap=60)
    many = [Event(id=i, minute=i / 10, key=f"k{i}", partition=i % 2) for i in range(100)]
    many += [Event(id=200, raw=b"{", partition=0)]
    rig.send(settings, topic, many)

    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    assert rig.list_spark_files(lake)
    assert rig.expect_cells(many[:-1]) == rig.count_by_cell(lake)
    assert [
        (sum(e.records for e in epochs), sum(e.counts["malformed"] for e in epochs)) for epochs in [rig.records(lake)]
    ] == [(101, 1)]
    assert rig.gaps(rig.records(lake)) == []


@pytest.mark.parametrize("reload_every", [1])
def test_handle_that_is_loaded_anew_goes_on(quick: Settings, topic: str, reload_every: int) -> None:
    settings = rig.fast(quick, reload_every=reload_every)
    pipeline = rig.pipeline(topic, cap=50)
    rig.send(settings, topic, EVENTS)

    lake = PipelineLake(settings, pipeline)
    driver.run_driver(lake, until="drain")

    assert rig.expect_cells(EVENTS) == rig.count_by_cell(lake)
