"""Served windows in each stage: every window comes from exactly one side."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cutover.clock import SystemClock
from cutover.definition import Count
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.errors import LakeError
from cutover.lake.batch_runs import Incomplete
from cutover.lake.control import losses, versions
from cutover.lake.control.versions import Version
from cutover.lake.serving import views
from cutover.lake.serving.vacuum import list_unserved
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_ledger_schema, epoch_log_schema
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    HOUR,
    PIPELINE,
    Lake,
    Sale,
    lake_of,
    micros,
    replace_batch,
    write,
    write_run,
)
from tests.support.history.journal_rows import record_stage
from tests.support.log.losses import LOSS

SALES = tuple(Sale(epoch=hour % 2, hour=hour) for hour in range(6))


@pytest.fixture(autouse=True)
def ledger(settings: Settings) -> None:
    delta.ensure(PipelineLake(settings, PIPELINE).batch_uri("batch_ledger"), batch_ledger_schema(PIPELINE))


def batch_from(lake: Lake, hour: int) -> tuple[dict[str, Any], ...]:
    return tuple(row for row in lake.batch if round(row["window_start"].timestamp() * 1e6) >= micros(hour))


def list_servers(settings: Settings) -> list[str]:
    """Return who serves each hour, in order."""
    with views.open_views(PipelineLake(settings, PIPELINE)) as connection:
        return [row[0] for row in connection.execute("SELECT _served_by FROM serving ORDER BY window_start").fetchall()]


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        pytest.param([(0, 6)], ["batch"] * 6, id="all computed"),
        pytest.param([(0, 4)], ["batch"] * 4 + ["streaming"] * 2, id="up to its horizon"),
        pytest.param([(3, 4)], ["streaming"] * 3 + ["batch"] + ["streaming"] * 2, id="a range in the middle alone"),
        pytest.param([(4, 5), (0, 2)], ["batch"] * 2 + ["streaming"] * 2 + ["batch", "streaming"], id="two ranges"),
        pytest.param([], ["streaming"] * 6, id="nothing computed"),
    ],
)
def test_lambda_serves_every_window_once(
    settings: Settings, computed: list[tuple[int, int]], expected: list[str]
) -> None:
    lake = lake_of(SALES)
    hours = {hour for start, end in computed for hour in range(start, end)}
    batch = tuple(row for row in lake.batch if round(row["window_start"].timestamp() * 1e6) in set(map(micros, hours)))
    run = replace(lake.run, computed=tuple((micros(start), micros(end)) for start, end in computed))
    write(settings, replace(lake, batch=batch, run=run))

    assert list_servers(settings) == expected


@pytest.mark.parametrize(("stage", "expected"), [("LAMBDA", "batch"), ("SHADOW", "streaming"), ("KAPPA", "streaming")])
def test_the_stage_says_who_serves(settings: Settings, stage: str, expected: str) -> None:
    write(settings, lake_of(SALES))
    record_stage(PipelineLake(settings, PIPELINE), stage)

    assert list_servers(settings) == [expected] * 6


def test_a_stale_window_is_served_as_it_was_computed(settings: Settings) -> None:
    lake = lake_of(SALES)
    write(settings, lake)
    later = replace(lake.run, run_id="later", computed=(), stale=((micros(2), micros(3)),), finished="9999")
    write_run(settings, replace(later, batch_version=1))

    assert list_servers(settings) == ["batch"] * 6


def test_without_a_batch_run_the_stream_serves_all(settings: Settings) -> None:
    uri = write(settings, lake_of(SALES))
    shutil.rmtree(PipelineLake(settings, PIPELINE).batch_uri("batch_index"))

    assert delta.exists(uri)
    assert list_servers(settings) == ["streaming"] * 6


def states(settings: Settings) -> list[str]:
    """Return what the view says of each hour, in order."""
    with views.open_views(PipelineLake(settings, PIPELINE)) as connection:
        return [row[0] for row in connection.execute("SELECT _state FROM serving ORDER BY window_start").fetchall()]


def lose(settings: Settings, start: int, end: int) -> None:
    """Record a loss that touches the hours from `start` to before `end`."""
    loss = replace(
        LOSS,
        pipeline=PIPELINE.name,
        result_fingerprint=result_fingerprint(PIPELINE),
        epoch=2,
        topic="sales",
        windows_from=micros(start),
        windows_to=micros(end),
        at=datetime.now(UTC),
    )
    losses.record(settings, [loss], expected_sequence=losses.read_next_loss_sequence(settings, PIPELINE.name))


def lose_log(settings: Settings, **changes: Any) -> Version:
    """Record that the log was recreated, which touches the hours before 3, and open the version that continues."""
    loss = replace(
        LOSS,
        pipeline=PIPELINE.name,
        result_fingerprint=result_fingerprint(PIPELINE),
        stream_version=1,
        epoch=0,
        kind="anew",
        topic="sales",
        topic_id="topic-1",
        next=None,
        onward_topic_id="topic-2",
        windows_from=micros(0),
        windows_to=micros(3),
        at=datetime.now(UTC),
    )
    sequence = losses.read_next_loss_sequence(settings, PIPELINE.name)
    losses.record(settings, [replace(loss, **changes)], expected_sequence=sequence)
    lake = PipelineLake(settings, PIPELINE)
    sequence = versions.read_next_version_sequence(lake)
    version = versions.register(lake, SystemClock(), expected_sequence=sequence)
    delta.ensure(version.uri, epoch_log_schema(PIPELINE), partition_by=["_kind"])
    return version


def of_stream_alone(hours: Sequence[int]) -> Lake:
    """Return a lake with a record in each of these hours, of which batch has computed none."""
    lake = lake_of([Sale(hour=hour) for hour in hours])
    return replace(lake, batch=(), run=replace(lake.run, computed=()))


def list_served_windows(settings: Settings) -> list[tuple[int, int, str]]:
    """Return hour, records and state of each window that is served."""
    query = "SELECT epoch_us(window_start), sales, _state FROM serving ORDER BY 1"
    with views.open_views(PipelineLake(settings, PIPELINE)) as connection:
        rows = connection.execute(query).fetchall()
    return [((start - micros(0)) // HOUR, sales, state) for start, sales, state in rows]


@pytest.mark.quick("KAPPA")
@pytest.mark.parametrize("stage", ["LAMBDA", "SHADOW", "KAPPA"])
def test_no_window_of_a_log_that_was_made_again_disappears_or_shrinks(settings: Settings, stage: str) -> None:
    write(settings, of_stream_alone((0, 0, 1, 2)))
    lake = PipelineLake(settings, PIPELINE)
    record_stage(lake, stage)
    version = lose_log(settings)

    shown_before = list_served_windows(settings)
    write(settings, of_stream_alone((0, 1, 1, 3)))

    lost_state = "incomplete(lost)"
    assert version.number == 1
    assert shown_before == [(0, 2, lost_state), (1, 1, lost_state), (2, 1, lost_state)]
    assert list_served_windows(settings) == [
        (0, 2, lost_state),
        (1, 2, lost_state),
        (2, 1, lost_state),
        (3, 1, "final"),
    ]
    numbers = [table.number for table in list_unserved(lake, datetime.now(UTC))]
    assert numbers == []  # stream-0 still serves


def test_table_that_was_broken_serves_nothing_for_the_version_that_reads_the_log_again(settings: Settings) -> None:
    write(settings, of_stream_alone((0, 1)))
    lose_log(settings, onward_topic_id="topic-1")

    assert list_served_windows(settings) == []


@pytest.mark.quick
def test_earlier_version_that_cannot_be_read_hides_no_window_of_the_one_in_force(settings: Settings) -> None:
    uri = write(settings, of_stream_alone((0, 1)))
    lose_log(settings)
    write(settings, of_stream_alone((1, 4)))
    shutil.rmtree(f"{uri}/_kind=partial")

    assert list_served_windows(settings) == [(1, 1, "incomplete(lost)"), (4, 1, "final")]


@pytest.mark.parametrize("stage", ["LAMBDA", "KAPPA"])
def test_every_window_says_what_it_is(settings: Settings, stage: str) -> None:
    lake = lake_of(SALES)
    at_three = replace(lake.epochs[-1], watermark_after=micros(4) + PIPELINE.lateness.allowed_micros)
    write(settings, replace(lake, epochs=(*lake.epochs[:-1], at_three)))
    record_stage(PipelineLake(settings, PIPELINE), stage)
    assert states(settings) == ["final"] * 4 + ["open"] * 2

    lose(settings, 3, 5)

    assert states(settings) == ["final"] * 3 + ["incomplete(lost)"] * 2 + ["open"]


@pytest.mark.parametrize("stage", ["SHADOW", "KAPPA"])
def test_windows_that_a_new_stream_cannot_read_again_are_served_as_batch_has_them(
    settings: Settings, stage: str
) -> None:
    lake = lake_of(SALES)
    partials = tuple(row for row in lake.partials if round(row["window_start"].timestamp() * 1e6) >= micros(2))
    run = replace(lake.run, computed=((micros(0), micros(1)), (micros(2), micros(6))))
    write(settings, replace(lake, partials=partials, run=run))
    record_stage(PipelineLake(settings, PIPELINE), stage)
    lose(settings, 0, 3)

    # Batch never computed hour 1, and no side has a row of it.
    assert list_servers(settings) == ["batch", "batch", *["streaming"] * 3]
    assert states(settings) == ["incomplete(lost)"] * 2 + ["final"] * 3


def test_measure_called_state_is_not_taken_for_what_a_window_is(settings: Settings) -> None:
    pipeline = replace(PIPELINE, measures={"state": Count(), "served_by": Count()})
    lake = PipelineLake(settings, pipeline)
    delta.ensure(lake.batch_uri("batch_ledger"), batch_ledger_schema(pipeline))
    write(settings, lake_of(SALES, pipeline), pipeline)

    with views.open_views(lake) as connection:
        rows = connection.execute("SELECT DISTINCT state, _state, _served_by FROM serving").fetchall()
    assert rows == [(None, "final", "batch")]  # the lake of this test holds no such measure


@pytest.mark.parametrize(("stage", "expected"), [("LAMBDA", "incomplete(expired)"), ("SHADOW", "final")])
def test_window_that_batch_can_never_compute_has_the_value_of_the_stream(
    settings: Settings, stage: str, expected: str
) -> None:
    lake = lake_of(SALES)
    incomplete = Incomplete(window_start=micros(0), window_end=micros(2), reason="expired")
    run = replace(lake.run, incomplete=(incomplete,), computed=((micros(2), micros(6)),))
    write(settings, replace(lake, batch=batch_from(lake, 2), run=run))
    record_stage(PipelineLake(settings, PIPELINE), stage)

    assert list_servers(settings)[:2] == ["streaming"] * 2
    assert states(settings)[:2] == [expected] * 2


def test_windows_that_a_run_over_the_whole_log_no_longer_holds_are_served_by_the_stream(settings: Settings) -> None:
    lake = lake_of(SALES)
    write(settings, lake)
    second_run = replace(lake.run, run_id="again", anew=True, computed=((micros(4), micros(6)),), finished="9998")
    replace_batch(settings, replace(lake, batch=batch_from(lake, 4), run=second_run))
    assert list_servers(settings) == ["streaming"] * 4 + ["batch"] * 2

    keeping_run = replace(second_run, run_id="kept", kept=((micros(0), micros(4)),), finished="9999")
    replace_batch(settings, replace(lake, run=keeping_run))
    assert list_servers(settings) == ["batch"] * 6


def test_window_that_batch_let_expire_says_so_where_batch_serves_it(settings: Settings) -> None:
    lake = lake_of(SALES)
    incomplete = Incomplete(window_start=micros(1), window_end=micros(2), reason="expired")
    computed = ((micros(0), micros(3)),)
    write(settings, replace(lake, run=replace(lake.run, incomplete=(incomplete,), computed=computed)))

    state_by_server = dict(zip(list_servers(settings), states(settings), strict=True))

    assert [state.startswith("incomplete") for state in states(settings)] == [False, True, False, False, False, False]
    assert state_by_server["streaming"] in {"final", "open"}


def test_before_the_first_epoch_it_says_what_makes_one(settings: Settings) -> None:
    with pytest.raises(LakeError, match="expected an epoch log under this definition, found none"):
        views.open_views(PipelineLake(settings, PIPELINE))
