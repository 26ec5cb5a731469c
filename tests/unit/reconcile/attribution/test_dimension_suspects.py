"""Windows that may contain records joined with different versions, with the offsets of all their records."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest

from cutover.definition import Sessions
from cutover.engine import queries
from cutover.lake.batch_runs import BatchRun
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.dimension import Suspects, _list_suspects, find_last_run, find_suspects
from cutover.reconcile.comparison.layout import Layout, SharedTable, Value
from cutover.reconcile.preconditions.seal import SealError
from cutover.settings import Settings
from tests.unit.reconcile.attribution.indexed import HOUR, PIPELINE, make_index_row, make_run, span, write_index

LAYOUT = Layout(keys=("window_start",), values=(Value(name="_n"),), group="window_start", wide=frozenset())


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with queries.open_duckdb() as database:
        yield database


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        ([((10, 20),)], 0),
        ([((0, 5), (9, 21))], 0),
        ([((11, 20),)], -1),
        ([((10, 19),)], -1),
        ([], -1),
        ([((10, 20),), ((0, 30),), ((20, 30),)], 1),
    ],
)
def test_a_window_is_of_the_last_run_that_computed_the_whole_of_it(
    computed: Sequence[tuple[tuple[int, int], ...]], expected: int
) -> None:
    runs = [make_run(str(number), computed=ranges) for number, ranges in enumerate(computed)]

    assert find_last_run(runs, 10, 20) == expected


@pytest.mark.parametrize(
    ("places", "is_touched"),
    [
        ([(0, 8, 30)], True),
        ([(0, 9, 30)], False),
        ([(0, 0, 5)], False),
        ([(0, 0, 6)], True),
        ([(1, 0, 30)], False),
        ([(1, 0, 30), (0, 6, 7)], True),
        ([], False),
    ],
)
def test_a_window_is_a_suspect_where_its_offsets_meet_a_place_of_their_partition(
    settings: Settings,
    connection: duckdb.DuckDBPyConnection,
    places: Sequence[tuple[int, int, int]],
    *,
    is_touched: bool,
) -> None:
    write_index(settings, [make_index_row("a", 0, 5, 8)])
    run = make_run("a")

    suspects = find_suspects(PipelineLake(settings, PIPELINE), connection, [run], [0], places)

    assert suspects == ([Suspects(run=run, windows=(0,), reads={0: (5, 9)})] if is_touched else [])


def test_reads_cover_exactly_the_records_of_suspect_windows(
    settings: Settings, connection: duckdb.DuckDBPyConnection
) -> None:
    rows = [
        *(make_index_row("a", 2, 10, 12), make_index_row("b", 2, 30, 33), make_index_row("b", 2, 4, 5, partition=1)),
        *(make_index_row("a", 1, 20, 22), make_index_row("a", 1, 7, 8), make_index_row("a", 0, 15, 15)),
        *(make_index_row("b", 3, 22, 23), make_index_row("a", 3, 60, 60)),  # not touched
        *(make_index_row("a", 4, 11, 70), make_index_row("later", 1, 80, 90)),  # not requested; of a later run
    ]
    write_index(settings, rows, [make_run("a")])
    runs = [make_run("a"), make_run("b")]

    suspects = find_suspects(
        PipelineLake(settings, PIPELINE), connection, runs, [0, HOUR, 2 * HOUR, 3 * HOUR], [(0, 11, 22)]
    )

    assert suspects == [
        Suspects(run=runs[1], windows=(0, HOUR, 2 * HOUR), reads={0: (7, 34), 1: (4, 6)}),
    ]


def sides_of(connection: duckdb.DuckDBPyConnection, stream: Sequence[int], batch: Sequence[int]) -> Mock:
    """Return sides with one row for each hour, in which `_n` is as given."""
    for name, counts in (("stage_1", stream), (SharedTable.EXPECTED, batch)):
        connection.execute(f"CREATE TEMP TABLE {name} (window_start TIMESTAMPTZ, window_end TIMESTAMPTZ, _n BIGINT)")
        for hour, count in enumerate(counts):
            times = f"make_timestamptz({hour * HOUR}), make_timestamptz({(hour + 1) * HOUR})"
            connection.execute(f"INSERT INTO {name} VALUES ({times}, {count})")  # noqa: S608 -- ours
    windows = f"SELECT window_start, window_end FROM {SharedTable.EXPECTED}"  # noqa: S608 -- ours
    connection.execute(f"CREATE TEMP VIEW {SharedTable.WINDOWS} AS {windows}")
    return Mock(connection=connection, layout=LAYOUT, merged=("late",))


RECORDED = {"ads": (span(0, 50, 0), span(50, 100, 1))}
AS_RECORDED: dict[str, Any] = {"dimensions": RECORDED}
OTHERWISE: dict[str, Any] = {"dimensions": {"ads": (span(0, 100, 1),)}}


def test_each_run_answers_for_the_windows_that_it_was_the_last_to_compute(
    settings: Settings, connection: duckdb.DuckDBPyConnection
) -> None:
    runs = [
        make_run("a", computed=((0, 3 * HOUR),), **OTHERWISE),
        make_run("b", computed=((HOUR, 2 * HOUR),), **OTHERWISE),
        make_run("c", computed=((2 * HOUR, 4 * HOUR),), **AS_RECORDED),
    ]
    rows = [make_index_row("a", hour, 10 * hour, 10 * hour + 5) for hour in range(3)]
    write_index(
        settings,
        [*rows, make_index_row("b", 0, 40, 44), make_index_row("b", 1, 30, 33), make_index_row("c", 1, 90, 95)],
        runs,
    )
    sides = sides_of(connection, [1, 1, 1, 1], [2, 2, 2, 1])

    suspects = _list_suspects(PipelineLake(settings, PIPELINE), Mock(run=runs[2]), sides, RECORDED)

    assert suspects == [
        Suspects(run=runs[0], windows=(0,), reads={0: (0, 6)}),
        Suspects(run=runs[1], windows=(HOUR,), reads={0: (10, 34)}),
    ]


@pytest.mark.parametrize(
    ("batch", "run_values", "is_refused"),
    [
        ([2], [AS_RECORDED, OTHERWISE], True),
        ([1], [AS_RECORDED, OTHERWISE], False),
        ([2], [AS_RECORDED, AS_RECORDED], False),
    ],
    ids=["differ, joined otherwise", "equal, joined otherwise", "differ, joined alike"],
)
def test_sessions_are_rejected_if_they_differ_and_a_run_joined_other_versions(
    settings: Settings,
    connection: duckdb.DuckDBPyConnection,
    batch: Sequence[int],
    run_values: Sequence[dict[str, Any]],
    *,
    is_refused: bool,
) -> None:
    runs: list[BatchRun] = [make_run(str(number), **values) for number, values in enumerate(run_values)]
    pipeline = replace(PIPELINE, window=Sessions(gap="10 minutes"))
    write_index(settings, [], runs, pipeline)
    sides, evidence = sides_of(connection, [1], batch), Mock(run=runs[-1])

    lake = PipelineLake(settings, pipeline)
    if is_refused:
        with pytest.raises(SealError, match="sessions are never folded again") as refused:
            _list_suspects(lake, evidence, sides, RECORDED)
        assert refused.value.breach.code == "dimension"
    else:
        assert _list_suspects(lake, evidence, sides, RECORDED) == []
