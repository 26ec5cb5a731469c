"""Folds and overflow files: other files, the same rows, and no file that a reader holds is deleted."""

import threading
from datetime import timedelta
from functools import partial

import pytest

from cutover.clock import SystemClock
from cutover.definition import Pipeline
from cutover.lake.control import pins, versions
from cutover.lake.control.versions import Version
from cutover.pipeline_lake import PipelineLake, control_uri
from cutover.probe import Point
from cutover.settings import Settings
from cutover.streaming import driver
from cutover.streaming.compaction import compactor
from cutover.streaming.sink import committer
from tests.integration.streaming import rig
from tests.integration.streaming.rig import Event
from tests.support.drivers.background import WITHIN
from tests.support.history.older_copy import restored_after

EVENTS = [Event(id=i, minute=i / 4, key="ab"[i % 2], partition=i % 2) for i in range(200)]
EVENTS += [Event(id=1000 + i, minute=0, logged=60, partition=0) for i in range(20)]  # late


class Folds:
    """Waits at the end for folds that are under way, so that the test sees them committed."""

    def __init__(self) -> None:
        self.written, self.committed = threading.Event(), list[int]()

    def __call__(self, point: Point, epoch: int) -> None:
        if point == "compact.written":
            self.written.set()
        if point == "compact.committed":
            self.committed.append(epoch)
        if point == "epoch.planned" and epoch == LAST_WAIT:
            assert self.written.wait(WITHIN)


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
def test_fold_keeps_every_cell_and_every_pinned_epoch(quick: Settings, topic: str) -> None:
    settings, pipeline, version = read_up_to_pin(quick, topic)
    clock = SystemClock()
    later = clock.now() + timedelta(hours=1)
    pins.pin(settings, version, PINNED, holder="test", expires_at=later, now=clock.now())
    lake = PipelineLake(settings, pipeline)
    at_pin = rig.count_by_cell(lake, epoch=PINNED)
    ledger_at_pin = rig.count_by_cell(lake, classes=["late"], epoch=PINNED)
    rig.send(settings, topic, EVENTS[6 * (PINNED + 1) :])
    folds = Folds()

    driver.run_driver(lake, until="drain", probe=folds)

    table = rig.epoch_log(lake).table
    files = compactor.list_files(table)
    epochs = rig.records(lake)
    assert len(epochs) > LAST_WAIT
    assert folds.committed
    assert rig.expect_cells(EVENTS) == rig.count_by_cell(lake)
    assert at_pin == rig.count_by_cell(lake, epoch=PINNED)
    assert ledger_at_pin == rig.count_by_cell(lake, classes=["late"], epoch=PINNED)
    assert not any(f.kind == "partial" and f.first_epoch <= PINNED < f.last_epoch for f in files)
    assert any(f.kind == "partial" and f.span > 1 for f in files)
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
