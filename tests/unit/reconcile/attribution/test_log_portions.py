"""Stretches of event time are read together as long as the index counts few enough records in them."""

from collections.abc import Sequence

import pytest

from cutover.definition.windows.window_fn import Interval
from cutover.engine import queries
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.log_rows import PORTION, list_read_portions
from cutover.settings import Settings
from tests.unit.reconcile.attribution.indexed import HOUR, PIPELINE, make_index_row, make_run, write_index


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1, PORTION - 1], [(0, 1)]),
        ([1, PORTION], [(0,), (1,)]),
        ([PORTION, 1, PORTION - 1, 1], [(0,), (1, 2), (3,)]),
        ([PORTION + 1, PORTION + 1], [(0,), (1,)]),
    ],
)
def test_a_portion_holds_as_many_neighbours_as_the_most_records_allow_and_at_least_one(
    settings: Settings, counts: Sequence[int], expected: Sequence[tuple[int, ...]]
) -> None:
    run = make_run("a", cut={0: 1_000})
    write_index(settings, [make_index_row("a", n, n, n, count=count) for n, count in enumerate(counts)], [run])
    stretches = [Interval(n * HOUR, (n + 1) * HOUR) for n in range(len(counts))]

    with queries.open_duckdb() as connection:
        found_portions = list_read_portions(PipelineLake(settings, PIPELINE), connection, run, stretches)

    assert [portion.stretches for portion in found_portions] == expected
