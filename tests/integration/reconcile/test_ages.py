"""Ages of batch runs and comparisons if the clocks that recorded them disagree."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable, write_deltalake

from cutover.clock import SystemClock
from cutover.lake.control import versions
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.verdict import history
from cutover.reconcile.watch.ages import find_batch_age, find_verdict_age
from cutover.reconcile.watch.alerts.catalogue import list_firing
from cutover.reconcile.watch.collector import FactCollector
from cutover.recorded_times import FOREVER, RecordAge
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, lake_of, reconcile, write, write_run
from tests.support.suite.standing_clock import StandingClock

NOW = datetime.now(UTC) + timedelta(days=30)  # the version of the stream is registered by the machine's clock
HOUR, DAY, YEARS = timedelta(hours=1), timedelta(days=1), timedelta(days=1_000)
LAKE = lake_of([Sale(epoch=i % 3, hour=i % 5, amount=i) for i in range(15)])


def record_runs(settings: Settings, ages: Sequence[timedelta]) -> None:
    """Write a lake whose batch runs, one after another, are recorded as this old."""
    first_age, *other_ages = ages
    write(settings, replace(LAKE, run=replace(LAKE.run, finished=(NOW - first_age).isoformat())))
    for number, age in enumerate(other_ages):
        run = replace(LAKE.run, run_id=f"again-{number}", scanned={}, computed=(), batch_version=1)
        write_run(settings, replace(run, finished=(NOW - age).isoformat()))


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        pytest.param([3 * HOUR, 2 * HOUR, HOUR], RecordAge(not_before=NOW - HOUR), id="one clock"),
        pytest.param(
            [3 * HOUR, 2 * HOUR, 2 * DAY], RecordAge(not_before=NOW - 2 * HOUR), id="the newest two days back"
        ),
        pytest.param([3 * HOUR, -YEARS, HOUR], RecordAge(not_before=NOW - HOUR), id="one years ahead"),
    ],
)
def test_the_age_of_the_batch_path_is_that_of_its_newest_run_by_the_clocks_that_agree(
    settings: Settings, ages: list[timedelta], expected: RecordAge
) -> None:
    record_runs(settings, ages)

    assert find_batch_age(PipelineLake(settings, PIPELINE), (), NOW) == expected


def test_of_a_run_of_the_future_only_the_version_before_it_is_known(settings: Settings) -> None:
    record_runs(settings, [-YEARS])
    (registered,) = versions.read_registrations(settings, PIPELINE.name)

    assert find_batch_age(PipelineLake(settings, PIPELINE), (), NOW) == RecordAge(
        not_before=registered.at, uncertainty=FOREVER
    )


def test_a_run_is_no_older_than_the_epoch_whose_cut_it_read(settings: Settings) -> None:
    record_runs(settings, [9 * HOUR])
    committed = [replace(epoch, processing_time=(NOW - HOUR).isoformat()) for epoch in LAKE.epochs]

    assert find_batch_age(PipelineLake(settings, PIPELINE), committed, NOW) == RecordAge(
        not_before=NOW - HOUR, uncertainty=8 * HOUR
    )


def test_a_run_that_a_foreign_writer_wrote_twice_has_an_age(settings: Settings) -> None:
    record_runs(settings, [3 * HOUR, HOUR, HOUR])
    lake = PipelineLake(settings, PIPELINE)
    index = lake.batch_uri("batch_index")
    write_deltalake(index, DeltaTable(index).to_pyarrow_table(), mode="append")

    assert find_batch_age(lake, (), NOW) == RecordAge(not_before=NOW - HOUR)


def test_a_comparison_that_is_repeated_with_a_clock_two_days_back_is_no_older_by_that(settings: Settings) -> None:
    record_runs(settings, [3 * HOUR])
    lake = PipelineLake(settings, PIPELINE)
    for age in (2 * HOUR, HOUR, 2 * DAY):
        reconcile(lake, clock=StandingClock(NOW - age))

    present = history.find_current_comparison(lake)
    assert present is not None
    assert (present.times, present.last_recorded) == (3, NOW - 2 * DAY)
    assert find_verdict_age(lake, (), NOW) == RecordAge(not_before=NOW - HOUR)


def test_a_comparison_is_no_older_than_the_run_that_it_compared(settings: Settings) -> None:
    record_runs(settings, [3 * HOUR])
    lake = PipelineLake(settings, PIPELINE)
    reconcile(lake, clock=StandingClock(NOW - 2 * DAY))

    assert find_verdict_age(lake, (), NOW) == RecordAge(not_before=NOW - 3 * HOUR, uncertainty=2 * DAY - 3 * HOUR)


@pytest.mark.parametrize(
    ("later", "is_named"), [(HOUR, False), (10 * DAY, True)], ids=["young for certain", "perhaps too old"]
)
def test_an_age_that_no_one_can_tell_is_named_once_it_may_be_too_old_and_claims_nothing(
    settings: Settings, later: timedelta, *, is_named: bool
) -> None:
    now = SystemClock().now()
    write(settings, replace(LAKE, run=replace(LAKE.run, finished=(now + YEARS).isoformat())))
    lake = PipelineLake(settings, PIPELINE)
    reconcile(lake, clock=StandingClock(now + YEARS))

    facts = FactCollector(lake, StandingClock(now + later)).collect()

    doubts = [problem.text.partition(" is ")[0] for problem in facts.problems if problem.runbook == "ClockSkew"]
    assert doubts == (["the age of the newest batch run", "the age of the newest comparison"] if is_named else [])


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        pytest.param((3 * HOUR, 2 * HOUR, HOUR), NOW, id="one clock"),
        pytest.param((-4 * HOUR, -5 * HOUR, -6 * HOUR), NOW + 4 * HOUR, id="this host's clock was set back"),
        pytest.param((3 * HOUR, -YEARS, -YEARS), NOW, id="a host that runs batch and reconcile is years ahead"),
        pytest.param((-YEARS, 2 * HOUR, HOUR), NOW, id="the driver's clock is years ahead"),
    ],
)
def test_rules_expire_by_the_time_that_epochs_runs_and_comparisons_have_all_shown(
    settings: Settings, ages: tuple[timedelta, timedelta, timedelta], expected: datetime
) -> None:
    read, run, comparison = ages
    lake = PipelineLake(settings, PIPELINE)
    assert history.find_rule_time(lake, NOW) == NOW
    epochs = tuple(replace(epoch, processing_time=(NOW - read).isoformat()) for epoch in LAKE.epochs)
    write(settings, replace(LAKE, epochs=epochs, run=replace(LAKE.run, finished=(NOW - run).isoformat())))
    reconcile(lake, clock=StandingClock(NOW - comparison))

    assert history.find_rule_time(lake, NOW) == expected


@pytest.mark.parametrize("clock_behind", [HOUR, 2 * DAY])
def test_a_watch_whose_own_clock_is_behind_takes_the_time_that_the_stream_shows(
    settings: Settings, clock_behind: timedelta
) -> None:
    epochs = tuple(replace(epoch, processing_time=(NOW - HOUR / 2).isoformat()) for epoch in LAKE.epochs)
    write(settings, replace(LAKE, epochs=epochs, run=replace(LAKE.run, finished=(NOW - HOUR / 4).isoformat())))
    lake = PipelineLake(settings, PIPELINE)
    reconcile(lake, clock=StandingClock(NOW - HOUR / 8))

    facts = FactCollector(lake, StandingClock(NOW - clock_behind)).collect()

    assert [problem for problem in facts.problems if problem.runbook == "ClockSkew"] == []
    assert {alert.name for alert in list_firing(facts)} & {
        "BatchNotFresh",
        "ReconcilerNotRunning",
        "ClockSkew",
    } == set()


BEHIND = [pytest.param(0 * HOUR, id="one clock"), pytest.param(HOUR, id="the host of batch and reconcile is behind")]


@pytest.mark.parametrize("host_behind", BEHIND)
@pytest.mark.parametrize(("old", "fires"), [(1.5 * HOUR, False), (2.5 * HOUR, True)], ids=["fresh", "old"])
def test_a_quiet_topic_shows_that_a_host_was_behind_as_it_still_got_records(
    settings: Settings, host_behind: timedelta, old: timedelta, *, fires: bool
) -> None:
    """Runs are due every hour: two may be missing. The first run read an epoch that had just been committed."""
    *_, earlier_epoch, second = LAKE.epochs
    at = SystemClock().now()
    epochs = (
        *LAKE.epochs[:-2],
        replace(earlier_epoch, processing_time=(at - 9 * HOUR).isoformat()),
        replace(second, processing_time=(at - 8 * HOUR).isoformat()),
    )
    write(
        settings,
        replace(LAKE, epochs=epochs, run=replace(LAKE.run, finished=(at - 8 * HOUR - host_behind).isoformat())),
    )
    lake = PipelineLake(settings, PIPELINE)
    reconcile(lake, clock=StandingClock(at - 8 * HOUR - host_behind))
    run = replace(LAKE.run, run_id="again", scanned={}, computed=(), batch_version=1)
    write_run(settings, replace(run, finished=(at - old - host_behind).isoformat()))
    reconcile(lake, clock=StandingClock(at - old - host_behind))

    facts = FactCollector(lake, StandingClock(at)).collect()

    names = {alert.name for alert in list_firing(facts)}
    assert names & {"BatchNotFresh", "ReconcilerNotRunning"} == (
        {"BatchNotFresh", "ReconcilerNotRunning"} if fires else set()
    )


@pytest.mark.parametrize(("late", "fires"), [(0.5 * HOUR, False), (1.5 * HOUR, False), (3.5 * HOUR, True)])
def test_a_watch_that_is_an_hour_behind_a_quiet_topic_neither_doubts_nor_misses(
    settings: Settings, late: timedelta, *, fires: bool
) -> None:
    at = SystemClock().now()
    epochs = tuple(replace(epoch, processing_time=(at - 9 * HOUR).isoformat()) for epoch in LAKE.epochs)
    write(settings, replace(LAKE, epochs=epochs, run=replace(LAKE.run, finished=(at - late).isoformat())))
    lake = PipelineLake(settings, PIPELINE)
    reconcile(lake, clock=StandingClock(at - late))

    facts = FactCollector(lake, StandingClock(at - HOUR)).collect()

    names = {alert.name for alert in list_firing(facts)}
    assert names & {"BatchNotFresh", "ReconcilerNotRunning", "ClockSkew"} == (
        {"BatchNotFresh", "ReconcilerNotRunning"} if fires else set()
    )
