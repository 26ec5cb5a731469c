"""Panes of a real stream: each comes once whenever the driver dies, in any file, on a quiet topic too."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from cutover.clock import Point
from cutover.definition import (
    Accumulation,
    AfterCount,
    AfterDelay,
    AtWatermark,
    EachEpoch,
    Every,
    Fixed,
    Lateness,
    Pipeline,
    Repeat,
)
from cutover.definition.model.triggers import Trigger
from cutover.lake.serving import views
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.compaction import compactor
from tests.integration.streaming import rig
from tests.integration.streaming.rig import MINUTE, NOON, Event
from tests.support.drivers.fed import Fed, HandClock

ON_TIME_AND_LATE = Repeat(AtWatermark())
EVENTS = [Event(id=i, minute=i, key="ab"[i % 2], partition=i % 2) for i in range(24)]
EVENTS += [
    Event(id=100 + i, minute=3, key="a", partition=i % 2) for i in range(2)
]  # behind the watermark, not too late
EVENTS += [Event(id=200 + i, minute=60, key="b", partition=i % 2) for i in range(2)]
DEATHS: tuple[Point, ...] = ("epoch.planned", "epoch.aggregated", "epoch.committed")


class WallClock(HandClock):
    """A clock of which both hands are moved by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.at = datetime.fromisoformat("2026-03-01T15:00:10+00:00")

    def now(self) -> datetime:
        return self.at


@dataclass(frozen=True, slots=True)
class Shown:
    """A pane: window start in minutes after noon, key, sum of ids, kind, index."""

    minute: int
    key: str | None
    ids: int
    kind: str
    index: int


def definition(topic: str, trigger: Trigger, accumulation: Accumulation = Accumulation.ACCUMULATING) -> Pipeline:
    lateness = Lateness(out_of_orderness="5 minutes", allowed="1 hour")
    return replace(rig.pipeline(topic, lateness=lateness), trigger=trigger, accumulation=accumulation)


def make_fed_driver(spark: SparkSession, lake: PipelineLake, clock: HandClock | None = None) -> Fed:
    return Fed(spark, lake, clock or HandClock())


def list_panes(lake: PipelineLake) -> list[Shown]:
    query = "SELECT epoch_us(window_start), k, ids::BIGINT, _pane, _index FROM panes ORDER BY _epoch, _order"
    with views.open_views(lake) as connection:
        rows = connection.execute(query).fetchall()
    return [Shown((row[0] - NOON) // MINUTE, *row[1:]) for row in rows]


def last_values(panes: Sequence[Shown]) -> dict[rig.Cell, int]:
    """Return the last value of every window; a retraction must retract the current value."""
    values_by_cell: dict[rig.Cell, int] = {}
    for pane in panes:
        place = (NOON + pane.minute * MINUTE, pane.key)
        if pane.kind == "retraction":
            assert values_by_cell.pop(place) == pane.ids
        else:
            values_by_cell[place] = pane.ids
    return values_by_cell


def ends(number: int) -> dict[int, int]:
    """Return the next offsets behind the first events."""
    return dict(Counter(event.partition for event in EVENTS[:number]))


def test_panes_come_on_time_and_late_with_the_epochs_that_bring_them(
    spark: SparkSession, quick: Settings, topic: str
) -> None:
    pipeline = definition(topic, ON_TIME_AND_LATE)
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake)

    for number in (8, 24, 26, 28):
        driver.feed(ends(number))

    assert [
        Shown(0, "a", 0 + 2 + 4 + 6 + 8, "on_time", 0),
        Shown(0, "b", 1 + 3 + 5 + 7 + 9, "on_time", 0),
        Shown(0, "a", 20 + 100 + 101, "late", 1),
        Shown(10, "a", 10 + 12 + 14 + 16 + 18, "on_time", 0),
        Shown(10, "b", 11 + 13 + 15 + 17 + 19, "on_time", 0),
        Shown(20, "a", 20 + 22, "on_time", 0),
        Shown(20, "b", 21 + 23, "on_time", 0),
    ] == list_panes(lake)


@pytest.mark.parametrize(
    "trigger",
    [ON_TIME_AND_LATE, Repeat(AfterCount(3)), AtWatermark(early=EachEpoch(), late=EachEpoch(), always=True)],
    ids=str,
)
def test_driver_that_dies_at_any_point_neither_loses_nor_doubles_a_pane(
    spark: SparkSession, quick: Settings, topic: str, trigger: Trigger
) -> None:
    pipeline = definition(topic, trigger, Accumulation.RETRACTING)
    rig.send(quick, topic, EVENTS)
    undisturbed = quick.model_copy(update={"home": quick.home / "undisturbed"})
    (quick.home / "undisturbed").mkdir()
    lake = PipelineLake(quick, pipeline)
    calm, driver = make_fed_driver(spark, PipelineLake(undisturbed, pipeline)), make_fed_driver(spark, lake)

    for position, number in enumerate((4, 8, 16, 24, 26, 28)):
        calm.feed(ends(number))
        driver.feed_and_die(ends(number), DEATHS[position % 3])
        driver = driver.anew()
        driver.feed(ends(number))

    assert list_panes(PipelineLake(undisturbed, pipeline)) == list_panes(lake)
    assert len(list_panes(lake)) > len(last_values(list_panes(lake)))


def test_period_ends_on_a_quiet_topic(spark: SparkSession, quick: Settings, topic: str) -> None:
    pipeline, clock = definition(topic, Repeat(Every("1 minute"))), WallClock()
    rig.send(quick, topic, EVENTS[:4])
    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake, clock)
    driver.feed(ends(4))
    driver.poll()
    shown_before = list_panes(lake)
    clock.at += timedelta(seconds=50)  # the end of the period, to the microsecond

    driver.poll()
    driver.poll()

    assert shown_before == []
    assert [Shown(0, "a", 0 + 2, "early", 0), Shown(0, "b", 1 + 3, "early", 0)] == list_panes(lake)
    assert driver.newest is not None
    assert (driver.newest.tick, driver.newest.epoch) == (True, 1)


def test_period_that_began_before_a_start_ends_after_it(spark: SparkSession, quick: Settings, topic: str) -> None:
    pipeline, clock = definition(topic, Repeat(Every("1 minute"))), WallClock()
    rig.send(quick, topic, EVENTS[:4])
    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake, clock)
    driver.feed(ends(4))
    clock.at += timedelta(hours=3)

    driver.anew().poll()

    assert [Shown(0, "a", 0 + 2, "early", 0), Shown(0, "b", 1 + 3, "early", 0)] == list_panes(lake)


def test_delay_ends_on_a_quiet_topic_though_the_driver_was_started_anew(
    spark: SparkSession, quick: Settings, topic: str
) -> None:
    pipeline, clock = definition(topic, Repeat(AfterDelay("1 minute")), Accumulation.DISCARDING), WallClock()
    rig.send(quick, topic, EVENTS[:4])
    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake, clock)
    driver.feed(ends(2))
    clock.at += timedelta(seconds=59, microseconds=999_999)
    driver = driver.anew()
    driver.feed(ends(4))
    driver.poll()
    shown_before = list_panes(lake)
    clock.at += timedelta(microseconds=1)

    driver.anew().poll()

    assert shown_before == []
    assert [Shown(0, "a", 0 + 2, "early", 0), Shown(0, "b", 1 + 3, "early", 0)] == list_panes(lake)


def test_pane_comes_on_time_always_though_nothing_has_come_since_the_start(
    spark: SparkSession, quick: Settings, topic: str
) -> None:
    pipeline = definition(topic, AtWatermark(early=EachEpoch(), always=True), Accumulation.DISCARDING)
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    make_fed_driver(spark, lake).feed(ends(10))
    driver = make_fed_driver(spark, lake)

    driver.feed(ends(24))

    with views.open_views(lake) as connection:
        rows = connection.execute(
            "SELECT k, _n, ids::BIGINT FROM panes WHERE _pane = 'on_time' ORDER BY _order"
        ).fetchall()
    assert rows[:2] == [("a", 0, None), ("b", 0, None)]
    assert [pane.kind for pane in list_panes(lake)][:2] == ["early", "early"]


@pytest.mark.quick
def test_rows_that_no_pane_shows_are_counted_in_the_table(spark: SparkSession, quick: Settings, topic: str) -> None:
    pipeline = definition(topic, AtWatermark())
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake)

    for number in (24, 26):
        driver.feed(ends(number))

    with views.open_views(lake) as connection:
        rows = connection.execute("SELECT k, _n, ids::BIGINT FROM panes WHERE _pane = 'dropped'").fetchall()
    assert rows == [("a", 2, 100 + 101)]


def test_changed_trigger_lets_open_windows_begin_anew_in_the_same_version(
    spark: SparkSession, quick: Settings, topic: str
) -> None:
    pipeline = definition(topic, Repeat(EachEpoch()), Accumulation.RETRACTING)
    later_pipeline = replace(pipeline, trigger=Repeat(AfterCount(1)))
    rig.send(quick, topic, EVENTS)
    make_fed_driver(spark, PipelineLake(quick, pipeline)).feed(ends(4))

    lake = PipelineLake(quick, later_pipeline)
    make_fed_driver(spark, lake).poll()

    assert rig.epoch_log(PipelineLake(quick, pipeline)).uri == rig.epoch_log(lake).uri
    assert [
        *(Shown(0, "a", 0 + 2, "early", 0), Shown(0, "b", 1 + 3, "early", 0)),
        *(Shown(0, "a", 0 + 2, "retraction", 1), Shown(0, "a", 0 + 2, "early", 1)),
        *(Shown(0, "b", 1 + 3, "retraction", 1), Shown(0, "b", 1 + 3, "early", 1)),
    ] == list_panes(lake)


def test_pipeline_that_gets_a_trigger_shows_what_its_open_windows_hold(
    spark: SparkSession, quick: Settings, topic: str
) -> None:
    pipeline = definition(topic, ON_TIME_AND_LATE, Accumulation.DISCARDING)
    rig.send(quick, topic, EVENTS)
    make_fed_driver(spark, PipelineLake(quick, replace(pipeline, trigger=None))).feed(ends(4))

    lake = PipelineLake(quick, pipeline)
    driver = make_fed_driver(spark, lake)
    driver.feed(ends(24))

    assert [
        Shown(0, "a", 0 + 2 + 4 + 6 + 8, "on_time", 0),
        Shown(0, "b", 1 + 3 + 5 + 7 + 9, "on_time", 0),
    ] == list_panes(lake)[:2]


def test_pipeline_without_a_trigger_keeps_nothing_for_panes(spark: SparkSession, quick: Settings, topic: str) -> None:
    pipeline = rig.pipeline(topic)
    rig.send(quick, topic, EVENTS)
    lake = PipelineLake(quick, pipeline)
    make_fed_driver(spark, lake).feed(ends(28))

    files = compactor.list_files(rig.epoch_log(lake).table)

    assert {file.kind for file in files} <= {"partial", "ledger", "epoch"}
    assert list_panes(lake) == []


def test_folds_keep_panes_and_what_is_held(spark: SparkSession, quick: Settings, topic: str) -> None:
    settings = rig.fast(quick, fold_every=6)
    pipeline = definition(topic, Repeat(EachEpoch()), Accumulation.RETRACTING)
    rig.send(settings, topic, EVENTS)
    lake = PipelineLake(settings, pipeline)
    driver = make_fed_driver(spark, lake)
    for number in (4, 8, 12, 16, 20, 24):
        driver.feed(ends(number))
    shown_before = list_panes(lake)

    driver.compact()
    folded = {file.kind for file in compactor.list_files(rig.epoch_log(lake).table) if file.span > 1}
    shown_after = list_panes(lake)
    driver = driver.anew()
    for number in (26, 28):
        driver.feed(ends(number))

    assert shown_before == shown_after
    assert {"pane", "held"} <= folded
    assert list_panes(lake)[len(shown_after) :] == [
        Shown(0, "a", 20, "retraction", 3),
        Shown(0, "a", 20 + 100 + 101, "late", 3),
        Shown(60, "b", 200 + 201, "early", 0),
    ]


def test_epoch_that_spark_wrote_has_its_panes(spark: SparkSession, quick: Settings, topic: str) -> None:
    settings = rig.fast(quick, overflow_rows=3)
    pipeline = replace(definition(topic, Repeat(EachEpoch())), window=Fixed(minutes=1))
    rig.send(settings, topic, EVENTS[:12])

    lake = PipelineLake(settings, pipeline)
    make_fed_driver(spark, lake).feed(ends(12))

    assert rig.list_spark_files(lake)
    minutes = 5  # minutes, at the end of the epoch
    kinds = ["on_time" if minute < minutes else "early" for minute in range(12)]
    assert [Shown(i, "ab"[i % 2], i, kind, 0) for i, kind in enumerate(kinds)] == list_panes(lake)
