"""Sides of a comparison over tables that a test has created itself, in a separate connection."""

from collections.abc import Sequence

import duckdb

from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.comparison.sides import Sides


def make_sides(
    connection: duckdb.DuckDBPyConnection,
    layout: Layout,
    *,
    merged: Sequence[str] = ("late", "future"),
    same_definition: bool = True,
) -> Sides:
    """Return sides of which every window is judged and no record came twice."""
    return Sides(
        connection=connection,
        layout=layout,
        merged=tuple(merged),
        same_definition=same_definition,
        has_twin_tables=False,
        open_windows=0,
        incomplete={},
        skipped_ranges=(),
        is_compared="true",
    )
