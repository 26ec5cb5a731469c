"""Growth of an epoch log in rows per hour, for hours that end now."""

from pathlib import Path

import pyarrow as pa
import pytest

from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.reconcile.watch.facts import RowGrowth
from cutover.reconcile.watch.findings import measure_row_growth
from tests.support.history.watch_facts import NOW, PIPELINE, make_epoch

HOUR = 3600.0


def write_epoch_log(folder: Path, *epochs: tuple[float, int]) -> EpochLog:
    """Write an epoch log of epochs, each with its age in hours and its rows."""
    schema = epoch_log_schema(PIPELINE)
    rows = [
        {"_kind": "epoch", "_epoch": number, "_record": make_epoch(number, age=hours * HOUR, rows=count).to_json()}
        for number, (hours, count) in enumerate(epochs)
    ]
    table = delta.ensure(str(folder / "log"), schema, partition_by=("_kind",))
    commits.append(table, pa.Table.from_pylist(rows, schema=schema))
    return EpochLog(str(folder / "log"))


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        pytest.param([(0.1, 5), (0.9, 6)], RowGrowth(last_hour=11, usual=0.0, hours=0), id="the first hour"),
        pytest.param([(0.5, 9), (1.5, 4)], RowGrowth(last_hour=9, usual=4.0, hours=1), id="one hour before"),
        pytest.param(
            [(1.2, 1), (1.4, 2), (2.5, 10), (3.5, 30)], RowGrowth(last_hour=0, usual=10.0, hours=3), id="median"
        ),
        pytest.param(
            [(0.5, 9), (1.5, 0), (2.5, 7)], RowGrowth(last_hour=9, usual=7.0, hours=1), id="hours without rows"
        ),
        pytest.param(
            [(0.5, 9), (168.5, 7), (169.5, 5)], RowGrowth(last_hour=9, usual=7.0, hours=1), id="before the week"
        ),
    ],
)
def test_rows_of_the_last_hour_are_compared_with_a_usual_hour(
    tmp_path: Path, epochs: list[tuple[float, int]], expected: RowGrowth
) -> None:
    assert measure_row_growth(write_epoch_log(tmp_path, *epochs), NOW) == expected
