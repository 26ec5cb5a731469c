"""Expected result of a planted defect, computed independently in Python from each folded row before and after it."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from cutover.definition.model.pipeline import Pipeline
from cutover.engine import queries
from cutover.quoting import identifier
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.attribution.cells import are_equal
from cutover.reconcile.comparison.layout import Layout
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.selftest.plants import PlantSide, Row
from cutover.reconcile.verdict.acceptance import Place
from cutover.records.classes import Class
from cutover.records.fold import finish_sql


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRow:
    """A (window, key) row that a plant changes."""

    place: Place
    kind: str  # missing, extra or changed, seen from batch; masked: the sides agree, and should not
    cause: str = UNEXPLAINED  # that a report must name


def place_of_row(row: Row, key: Sequence[str]) -> Place:
    """Return where a row of a result stands, as a report names it."""
    return str(scalar(row["window_start"])), json.dumps({name: scalar(row[name]) for name in key}, sort_keys=True)


def fold_rows(
    pipeline: Pipeline, partials: pa.Table, struck: pa.Table, *, upto: int, keep: Sequence[Class]
) -> list[dict[str, Any]]:
    """Return what the stream's rows of some keys amount to.

    Args:
        pipeline: The definition.
        partials: Rows of the partial shape, with `_epoch`.
        struck: Rows with the keys.
        upto: Epochs behind this one do not count.
        keep: Classes that count.
    """
    with queries.connect() as connection:
        keys_sql = _select_keys_sql(connection, pipeline, partials, struck)
        folded = finish_sql(pipeline, f"({keys_sql} AND _epoch <= {upto})", keep=tuple(keep))
        rows: list[dict[str, Any]] = connection.sql(folded).to_arrow_table().to_pylist()
        return rows


def rows_of_keys(pipeline: Pipeline, rows: pa.Table, struck: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a result whose keys some rows have."""
    with queries.connect() as connection:
        keys_sql = _select_keys_sql(connection, pipeline, rows, struck)
        found: list[dict[str, Any]] = connection.sql(keys_sql).to_arrow_table().to_pylist()
        return found


def _select_keys_sql(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, rows: pa.Table, struck: pa.Table
) -> str:
    connection.register("all_rows", rows)
    connection.register("struck_rows", struck.select(list(pipeline.key) or ["window_start"]))
    same = (f"p.{name} IS NOT DISTINCT FROM k.{name}" for name in map(identifier, pipeline.key))
    exists = f"SELECT 1 FROM struck_rows k WHERE {' AND '.join(same) or 'true'}"
    return f"SELECT p.* FROM all_rows p WHERE EXISTS ({exists})"


def compare_rows(
    before: Iterable[Row], after: Iterable[Row], *, key: Sequence[str], layout: Layout, side: PlantSide
) -> tuple[PlantedRow, ...]:
    """Return the rows in which a side is another one than before.

    Args:
        before: Results at some places, all that there are.
        after: The same, edited.
        key: Key columns.
        layout: Columns that are compared, with their tolerances.
        side: Whose rows they are: a row that batch lacks is extra.
    """
    then, now = _by_place(before, key), _by_place(after, key)
    lacks, has = ("missing", "extra") if side is PlantSide.STREAM else ("extra", "missing")
    rows = []
    for place in sorted(then.keys() | now.keys()):
        old, new = then.get(place, []), now.get(place, [])
        if len(old) != len(new):
            rows.append(PlantedRow(place=place, kind=lacks if len(old) > len(new) else has))
        elif not _is_same(old, new, layout):
            rows.append(PlantedRow(place=place, kind="changed"))
    return tuple(rows)


def shown_kinds(
    stream: Iterable[Row], batch: Iterable[Row], places: Iterable[Place], *, key: Sequence[str], layout: Layout
) -> Mapping[Place, str]:
    """Return how a report calls the rows at some places, from what the stream serves and what batch has."""
    left, right = _by_place(stream, key), _by_place(batch, key)
    found = {}
    for place in places:
        actual, expected = left.get(place, []), right.get(place, [])
        if len(actual) != len(expected):
            found[place] = "missing" if len(actual) < len(expected) else "extra"
        else:
            found[place] = "masked" if _is_same(actual, expected, layout) else "changed"
    return found


def _by_place(rows: Iterable[Row], key: Sequence[str]) -> Mapping[Place, list[Row]]:
    found: dict[Place, list[Row]] = defaultdict(list)
    for row in rows:
        found[place_of_row(row, key)].append(row)
    return found


def _is_same(old: Sequence[Row], new: Sequence[Row], layout: Layout) -> bool:
    """Return whether some order of the rows of one place is the same within the tolerances."""
    rest = list(new)
    for row in old:
        twin = next((one for one in rest if _is_equal(row, one, layout)), None)
        if twin is None:
            return False
        rest.remove(twin)
    return True


def _is_equal(old: Row, new: Row, layout: Layout) -> bool:
    return all(are_equal(value, old[value.name], new[value.name]) for value in layout.values if value.name in old)
