"""The file of all rows that differ: integers of 128 bits stay whole, as a decimal where one is long enough."""

from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from cutover.reconcile.attribution import cells
from cutover.reconcile.comparison.layout import Layout, SharedTable, make_default_comparison

LONGEST = 10**38 - 1  # that a decimal holds


def write_totals(path: Path, *totals: int | None, kind: str = "HUGEINT") -> tuple[str, list[str | None]]:
    """Write rows of which batch has these totals; return their type in the file, and the totals as text."""
    layout = Layout(
        keys=("window_start", "shop"),
        values=(make_default_comparison("total", kind),),
        group="window_start",
        wide=frozenset(),
    )
    file = path / "differences.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TEMP TABLE {SharedTable.TOUCHED} (window_start TIMESTAMPTZ, shop VARCHAR, __copy INTEGER,"
            f" _kind VARCHAR, _explained INTEGER, __b0 {kind}, __v0_0 {kind})"
        )
        for n, total in enumerate(totals):
            connection.execute(
                f"INSERT INTO {SharedTable.TOUCHED} SELECT make_timestamptz($1), 'a', 1, 'changed', 0, $2::{kind}, 0",
                [n, None if total is None else str(total)],
            )
        cells.write_all_differences(Mock(connection=connection, layout=layout, merged=()), file)
        query = f"SELECT typeof(batch.total), batch.total::VARCHAR FROM '{file}' ORDER BY window_start"  # noqa: S608 -- ours
        rows = connection.execute(query).fetchall()
    return str(rows[0][0]), [text for _, text in rows]


@pytest.mark.parametrize("totals", [(LONGEST, 0), (-LONGEST, 0), (-LONGEST, LONGEST), (None, 7)])
def test_totals_that_a_decimal_holds_are_decimals(tmp_path: Path, totals: tuple[int | None, ...]) -> None:
    kind, texts = write_totals(tmp_path, *totals)

    assert (kind, texts) == ("DECIMAL(38,0)", [None if total is None else str(total) for total in totals])


@pytest.mark.parametrize("totals", [(LONGEST + 1, 0), (-LONGEST - 1, 0), (-LONGEST - 1, LONGEST), (LONGEST + 1, -1)])
def test_one_total_that_is_longer_makes_texts_of_all(tmp_path: Path, totals: tuple[int, ...]) -> None:
    assert write_totals(tmp_path, *totals) == ("VARCHAR", [str(total) for total in totals])


def test_totals_that_are_not_there_are_decimals_too(tmp_path: Path) -> None:
    assert write_totals(tmp_path, None) == ("DECIMAL(38,0)", [None])


def test_a_number_of_64_bits_keeps_its_type(tmp_path: Path) -> None:
    assert write_totals(tmp_path, 2**62, kind="BIGINT") == ("BIGINT", [str(2**62)])
