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
    """Return the place of a result row, as a report names it."""
    return str(scalar(row["window_start"])), json.dumps({name: scalar(row[name]) for name in key}, sort_keys=True)


def fold_rows(
    pipeline: Pipeline, partials: pa.Table, struck: pa.Table, *, upto: int, keep: Sequence[Class]
) -> list[dict[str, Any]]:
    """Fold the stream's rows of some keys into results.

    Args:
        pipeline: The definition.
        partials: Rows of the partial shape, with `_epoch`.
        struck: Rows with the keys.
        upto: The last epoch that counts.
        keep: Classes that count.
    """
    with queries.open_duckdb() as connection:
        keys_sql = _select_keys_sql(connection, pipeline, partials, struck)
        folded = finish_sql(pipeline, f"({keys_sql} AND _epoch <= {upto})", keep=tuple(keep))
        rows: list[dict[str, Any]] = connection.sql(folded).to_arrow_table().to_pylist()
        return rows


def select_rows_by_key(pipeline: Pipeline, rows: pa.Table, struck: pa.Table) -> list[dict[str, Any]]:
    """Select the results for the keys that an edit changed."""
    with queries.open_duckdb() as connection:
        keys_sql = _select_keys_sql(connection, pipeline, rows, struck)
        selected_rows: list[dict[str, Any]] = connection.sql(keys_sql).to_arrow_table().to_pylist()
        return selected_rows


def _select_keys_sql(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, rows: pa.Table, struck: pa.Table
) -> str:
    connection.register("all_rows", rows)
    connection.register("struck_rows", struck.select(list(pipeline.key) or ["window_start"]))
    is_same_key = (f"p.{name} IS NOT DISTINCT FROM k.{name}" for name in map(identifier, pipeline.key))
    exists = f"SELECT 1 FROM struck_rows k WHERE {' AND '.join(is_same_key) or 'true'}"
    return f"SELECT p.* FROM all_rows p WHERE EXISTS ({exists})"


def find_changed_rows(
    original_rows: Iterable[Row], edited_rows: Iterable[Row], *, key: Sequence[str], layout: Layout, side: PlantSide
) -> tuple[PlantedRow, ...]:
    """Compare the results of a side before and after an edit, and return the rows that changed.

    Args:
        original_rows: All results at some places.
        edited_rows: The same results after the edit.
        key: Key columns.
        layout: Columns that are compared, with their tolerances.
        side: Whose rows they are: a row that batch lacks is extra.
    """
    original_by_place, edited_by_place = _by_place(original_rows, key), _by_place(edited_rows, key)
    removed_kind, added_kind = ("missing", "extra") if side is PlantSide.STREAM else ("extra", "missing")
    rows = []
    for place in sorted(original_by_place.keys() | edited_by_place.keys()):
        old, new = original_by_place.get(place, []), edited_by_place.get(place, [])
        if len(old) != len(new):
            rows.append(PlantedRow(place=place, kind=removed_kind if len(old) > len(new) else added_kind))
        elif not _is_same(old, new, layout):
            rows.append(PlantedRow(place=place, kind="changed"))
    return tuple(rows)


def shown_kinds(
    stream: Iterable[Row], batch: Iterable[Row], places: Iterable[Place], *, key: Sequence[str], layout: Layout
) -> Mapping[Place, str]:
    """Return the kinds that a report shows at some places, from the served rows and those of batch."""
    stream_by_place, batch_by_place = _by_place(stream, key), _by_place(batch, key)
    kinds = {}
    for place in places:
        actual, expected = stream_by_place.get(place, []), batch_by_place.get(place, [])
        if len(actual) != len(expected):
            kinds[place] = "missing" if len(actual) < len(expected) else "extra"
        else:
            kinds[place] = "masked" if _is_same(actual, expected, layout) else "changed"
    return kinds


def _by_place(rows: Iterable[Row], key: Sequence[str]) -> Mapping[Place, list[Row]]:
    rows_by_place: dict[Place, list[Row]] = defaultdict(list)
    for row in rows:
        rows_by_place[place_of_row(row, key)].append(row)
    return rows_by_place


def _is_same(old: Sequence[Row], new: Sequence[Row], layout: Layout) -> bool:
    """Return whether the rows of one place are equal within the tolerances, in any order."""
    unmatched = list(new)
    for row in old:
        twin = next((candidate for candidate in unmatched if _is_equal(row, candidate, layout)), None)
        if twin is None:
            return False
        unmatched.remove(twin)
    return True


def _is_equal(old: Row, new: Row, layout: Layout) -> bool:
    return all(are_equal(value, old[value.name], new[value.name]) for value in layout.values if value.name in old)
