"""`cutover diff`: the same digests and the same diff over any two tables; LEFT is expected, RIGHT is actual."""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import duckdb

from cutover.counts import choose_form, count_clause
from cutover.engine import queries
from cutover.engine.queries import fetch_number, fetch_row
from cutover.errors import LakeError
from cutover.lake.tables.checksums import read_once
from cutover.quoting import identifier
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.attribution.cells import subtract
from cutover.reconcile.comparison import diff, digests
from cutover.reconcile.comparison.column_types import is_number, is_time, show_nanoseconds
from cutover.reconcile.comparison.diff import Diff, Pair
from cutover.reconcile.comparison.digests import SegmentColumn
from cutover.reconcile.comparison.layout import FLOAT_RELATIVE, Layout
from cutover.reconcile.external import cell_texts
from cutover.reconcile.external.alignment import Columns, align, quote_word
from cutover.reconcile.external.cell_texts import SpelledRows
from cutover.reconcile.external.column_readings import Readings, choose_readings
from cutover.reconcile.external.open_tables import OpenTables, open_tables, prepare_sides
from cutover.reconcile.external.request import DiffRequest, Tolerance
from cutover.reconcile.result.codec import Scalar, scalar
from cutover.reconcile.result.finding import (
    Apart,
    Cause,
    Difference,
    EqualWithin,
    Finding,
    KeySegment,
    PolicyResult,
    Rows,
    SideNames,
    Verdict,
    Windows,
    WorstKey,
)
from cutover.reconcile.result.report import Report, RunMetadata
from cutover.reconcile.result.text import count_noun
from cutover.settings import Settings
from cutover.sources.addresses import mask_source
from cutover.sources.binding import BoundTable, describe_optional, open_binder
from cutover.sources.csv_dialect import find_hint
from cutover.sources.staging import Selection, TimeRange

LEFT, RIGHT = "expected_side", "actual_side"
CELLS_AT_MOST = 500
KEYS_AT_MOST = 20
COLUMNS_AT_ONCE = 100
WIDE = 200
"""Columns beyond which steps of planning that take the square of them are left out."""

BYTES_A_COLUMN = 280_000
"""Memory of one thread for a batch of 2,048 rows, of each column of a wide table of CSV; measured."""

MASKED = "(masked)"


def compare_tables(diff_request: DiffRequest, settings: Settings | None = None) -> Report:
    """Compare two tables as multisets of rows by key, null-safe.

    Args:
        diff_request: What to compare.
        settings: Where digests are kept, and what a reader may take; None: nothing is kept.

    Raises:
        DefinitionError: A table is not there, or a named column is not on both sides.
        LakeError: A file cannot be read, or changed while it was read.
    """
    started_at, started = datetime.now(UTC), monotonic()
    limits = None if settings is None else queries.make_reader_limits(settings)
    with queries.open_duckdb(limits) as connection, read_once(), open_binder(connection, settings) as binder:
        if limits is not None:  # an engine of this comparison's own, whose files stay as they are
            connection.execute("SET parquet_metadata_cache = true; SET preserve_insertion_order = false")
        bound_sources = (
            binder.bind("left_raw", diff_request.expected, diff_request.dialects[0], _select(diff_request, {})),
            binder.bind(
                "right_raw", diff_request.actual, diff_request.dialects[1], _select(diff_request, diff_request.names)
            ),
        )
        if limits is not None:
            _plan_for_width(connection, max(len(source.types) for source in bound_sources))
        try:
            readings = choose_readings(connection, diff_request, bound_sources)
            sources = readings.sources
            prepared = prepare_sides(connection, diff_request, sources, ("left_ready", "right_ready"))
            columns = align(connection, ("left_ready", "right_ready"), (LEFT, RIGHT), readings.numbers)
            tables = open_tables(connection, diff_request, sources, prepared, columns, settings)
            result = tables.find(diff_request.budget)
            optional = describe_optional(_pair_names(diff_request, columns), *sources)
            notes = (*_describe_pinned(bound_sources), *readings.notes, *prepared.notes, *optional)
            finding = _build_finding(tables, diff_request, columns, readings, result, notes)
        except (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException):
            raise
        except duckdb.Error as error:
            message = queries.describe_error(error)
            names = f"`{mask_source(diff_request.expected)}` and `{mask_source(diff_request.actual)}`"
            msg = f"Tables {names}: expected files that can be read, got: {message}"
            raise LakeError(msg + find_hint(message), runbook="TableUnreadable") from None
    run = RunMetadata(
        run_id=f"{started_at:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}",
        at=started_at.isoformat().replace("+00:00", "Z"),
        seconds=round(monotonic() - started, 3),
    )
    return Report(finding=finding, run=run)


def _select(diff_request: DiffRequest, new_names: Mapping[str, str]) -> Selection:
    """Return what is read of a side.

    Args:
        diff_request: Columns that are not compared, and the range of windows.
        new_names: The expected side's name of a column -> this side's.
    """
    start, end = diff_request.times
    times = None
    if diff_request.window is not None and (start is not None or end is not None):
        times = TimeRange(column=new_names.get(diff_request.window, diff_request.window), start=start, end=end)
    return Selection(excluded=frozenset(new_names.get(name, name) for name in diff_request.excluded), times=times)


def _describe_pinned(sources: Sequence[BoundTable]) -> list[str]:
    sides = zip(("expected", "actual"), sources, strict=True)
    return [f"The {side} side was read {source.pinned}." for side, source in sides if source.pinned]


def _plan_for_width(connection: duckdb.DuckDBPyConnection, columns: int) -> None:
    """Leave out costly steps of planning for a wide table, and threads whose batches of rows have no memory."""
    if columns <= WIDE:
        return
    connection.execute("SET disabled_optimizers = 'statistics_propagation,common_subexpressions'")
    settings = "current_setting('threads'), parse_formatted_bytes(current_setting('memory_limit'))"
    threads, memory = fetch_row(connection, f"SELECT {settings}")
    connection.execute(f"SET threads = {max(1, min(threads, memory // (columns * BYTES_A_COLUMN)))}")


def _pair_names(diff_request: DiffRequest, columns: Columns) -> dict[str, str]:
    return {name: diff_request.names.get(name, name) for name in columns.common}


def _build_finding(
    tables: OpenTables,
    diff_request: DiffRequest,
    columns: Columns,
    readings: Readings,
    diff: Diff,
    notes: Sequence[str],
) -> Finding:
    connection, layout = tables.connection, tables.layout
    is_spelling = columns.is_same and cell_texts.is_all_spelling(connection, layout, readings.texts)
    spelled = SpelledRows() if is_spelling else cell_texts.drop_spelled_rows(connection, layout, readings.texts)
    diff = spelled.subtract_from(diff)
    rows = Rows(
        compared=tables.count_rows() + diff.missing,
        missing=diff.missing,
        extra=diff.extra,
        changed=diff.changed,
    )
    verdict, exit_code = _decide_verdict(rows, diff, is_same_schema=columns.is_same, is_spelling=is_spelling)
    sentence = _describe_verdict(rows, diff, is_same_schema=columns.is_same)
    sentence = _describe_spelling(diff, readings) if is_spelling else sentence
    return Finding(
        kind="tables",
        pipeline="diff",
        verdict=verdict,
        exit_code=exit_code,
        sentence=sentence,
        sides=SideNames(expected=mask_source(diff_request.expected), actual=mask_source(diff_request.actual)),
        windows=_count_windows(tables, diff_request),
        rows=rows,
        causes={UNEXPLAINED: Cause(rows=diff.rows)},
        policy=PolicyResult(unexplained=diff.rows, within=exit_code == 0),
        worst_keys=_list_worst_keys(connection, diff_request, layout, columns),
        apart=_measure_distances(connection, diff_request, layout, columns),
        segments=_find_segments(connection, diff_request, layout, columns, rows.compared),
        differences=_sample_differences(connection, diff_request, layout, columns),
        differences_total=_count_cells(connection, layout),
        readings=readings.tables,
        equal_within=_describe_near(diff_request, diff),
        notes=(
            *notes,
            *columns.notes,
            *_describe_spelled(spelled, readings),
            *_describe_doubled(tables),
            *_describe_unfinished(diff),
            *tables.notes,
        ),
    )


def _decide_verdict(rows: Rows, diff: Diff, *, is_same_schema: bool, is_spelling: bool) -> tuple[Verdict, int]:
    """Return the verdict and its exit code; agreement of nothing with nothing, or of a part, proves nothing."""
    if is_spelling:
        return Verdict.NOT_COMPARABLE, 2
    if diff.rows or not is_same_schema:
        return Verdict.DIVERGED, 1
    return (Verdict.CONSISTENT, 0) if rows.compared and not diff.unfinished else (Verdict.NOT_COMPARABLE, 2)


def _describe_spelling(diff: Diff, readings: Readings) -> str:
    return (
        f"{count_noun(diff.rows, 'row')} differ only in how numbers are written, such as 1.0 and 1, in a column whose"
        f" other cells are no numbers. `{_format_text_options(readings)}` compares such columns as texts; `decimal` in"
        " place of `text` does as numbers, once no cell holds another text (`--csv null=NA` names one for null)."
    )


def _describe_spelled(spelled: SpelledRows, readings: Readings) -> Iterator[str]:
    """Yield notes on rows that may be equal or not and are not counted, and on keys that may be one."""
    options = f"`{_format_text_options(readings)}` compares such columns as texts."
    uncounted_rows = spelled.changed + 2 * spelled.keys
    if uncounted_rows:
        rows_text = f"{count_noun(uncounted_rows, 'row')} with no other difference than how numbers are written"
        yield f"Not counted: {rows_text}, such as 1.0 and 1. {options}"
    if spelled.unequal_keys:
        rows_text = f"{count_noun(spelled.unequal_keys, 'missing row')} may be one with an extra row"
        yield f"{rows_text}: their keys differ only in how numbers are written, such as 1.0 and 1. {options}"


def _format_text_options(readings: Readings) -> str:
    return " ".join(f"--type {quote_word(f'{name}=text')}" for name in sorted(readings.texts))


def _describe_near(diff_request: DiffRequest, diff: Diff) -> tuple[EqualWithin, ...]:
    default_tolerance = Tolerance(relative=FLOAT_RELATIVE)
    return tuple(
        EqualWithin(
            column=name,
            cells=count,
            tolerance=diff_request.tolerances.get(name, default_tolerance).describe(),
            is_default=name not in diff_request.tolerances,
        )
        for name, count in diff.near.items()
    )


def _count_windows(tables: OpenTables, diff_request: DiffRequest) -> Windows:
    """Return how many windows there are and differ; none where no window column was named."""
    group = tables.layout.group
    if group is None:
        return Windows()
    window_count, lowest, highest = tables.measure_groups()
    query = f"SELECT count(*) FROM (SELECT DISTINCT {identifier(group)} FROM different)"
    ends = (None if end is None else str(_mask(diff_request, group, end)) for end in (lowest, highest))
    return Windows(
        compared=window_count, different=fetch_number(tables.connection, query), first=next(ends), last=next(ends)
    )


def _describe_verdict(rows: Rows, diff: Diff, *, is_same_schema: bool) -> str:
    if not rows.compared and is_same_schema:
        return "Nothing was compared: no row is left on either side. Name tables or versions that hold rows."
    if diff.rows == 0 and diff.unfinished:
        return "No difference was found before the budget ended, and not all was compared. Give more, or none."
    if diff.rows == 0:
        schema = "." if is_same_schema else "; the schemas differ."
        all_rows = f"{choose_form(rows.compared, 'the', 'all')} {count_noun(rows.compared, 'row')}"
        return f"The tables agree in {all_rows} of the columns that they share{schema}"
    counts = [(rows.missing, "missing"), (rows.extra, "extra"), (rows.changed, "changed")]
    count_texts = ", ".join(f"{count:,} {name}" for count, name in counts if count)
    lower_bound = "at least " if diff.unfinished else ""
    return f"The tables differ in {lower_bound}{diff.rows:,} of {count_noun(rows.compared, 'row')}: {count_texts}."


def _describe_unfinished(diff: Diff) -> list[str]:
    """Return a note on what a budget left alone."""
    if not diff.unfinished:
        return []
    share = f"{diff.unfinished:,} of {count_noun(diff.unfinished + diff.joined, 'group')} whose digests differ"
    return [f"The budget ended first: {share} were not compared, so more may differ."]


def _describe_doubled(tables: OpenTables) -> list[str]:
    """Return a note for each side on which a key is not unique; its rows are compared as a multiset."""
    return [
        f"The key is not unique on the {side} side: "
        + count_clause(doubled_keys, "key", "has", "have")
        + " more than one row."
        for side, doubled_keys in zip(("expected", "actual"), tables.doubled, strict=True)
        if doubled_keys
    ]


def _sample_differences(
    connection: duckdb.DuckDBPyConnection, diff_request: DiffRequest, layout: Layout, columns: Columns
) -> tuple[Difference, ...]:
    """Return cells of a sample of rows: the same number of each kind of difference, so that none crowds out a rare one.

    A kind is: missing, extra, or which columns changed. The cells of a row with many changed columns are limited
    so that each kind of difference has a row.
    """
    keys = ", ".join(map(identifier, layout.keys))
    # One list for all columns: a window over thousands of them is slow.
    kind = f"__diff, [{', '.join(f'__d{i}' for i in range(len(layout.values)))}]"
    order = f"{keys}, __copy"
    place = f"row_number() OVER (ORDER BY {order}) AS __place"
    # The window knows rows by their numbers: one over thousands of columns takes more memory than there is.
    ranked = f"SELECT rowid AS __row, row_number() OVER (PARTITION BY {kind} ORDER BY {order}) AS __rank, {place}"
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE listed AS"
        " SELECT *, row_number() OVER (ORDER BY __rank, __kind, __place) AS __at"
        f" FROM ({ranked}, hash({kind}) AS __kind FROM different)"
        f" ORDER BY __rank, __kind, __place LIMIT {CELLS_AT_MOST}"
    )
    rows = _fetch_listed(connection, layout, columns.common)
    cells_of_a_row = max(1, CELLS_AT_MOST // max(1, sum(rank == 1 for _, rank, *_ in rows)))
    cells = [(at, cell) for at, _, *row in rows for cell in _row_cells(diff_request, layout, row)[:cells_of_a_row]][
        :CELLS_AT_MOST
    ]
    return tuple(cell for _, cell in sorted(cells, key=lambda cell: cell[0]))


def _fetch_listed(connection: duckdb.DuckDBPyConnection, layout: Layout, types: Mapping[str, str]) -> list[list[Any]]:
    """Return the rows of `listed` in order: place, rank, key, kind, and three columns of each value."""
    keys = ", ".join(show_nanoseconds(f"d.{identifier(name)}", types[name]) for name in layout.keys)
    from_listed = "FROM different d JOIN listed l ON l.__row = d.rowid ORDER BY __at"
    rows = [[*row] for row in connection.execute(f"SELECT __place, __rank, {keys}, d.__diff {from_listed}").fetchall()]
    for start in range(0, len(layout.values) if rows else 0, COLUMNS_AT_ONCE):
        places = range(start, min(start + COLUMNS_AT_ONCE, len(layout.values)))
        values = ", ".join(
            f"{show_nanoseconds(f'__e{i}', kind)}, {show_nanoseconds(f'__a{i}', kind)}, __d{i}"
            for i in places
            for kind in [types[layout.values[i].name]]
        )
        value_rows = connection.execute(f"SELECT {values} {from_listed}").fetchall()
        rows = [[*row, *cells] for row, cells in zip(rows, value_rows, strict=True)]
    return rows


def _row_cells(diff_request: DiffRequest, layout: Layout, row: Sequence[Any]) -> list[Difference]:
    """Return a cell for each value that differs; one named after the key where a row without values is on one side."""
    key_count = len(layout.keys)
    key = {name: _mask(diff_request, name, value) for name, value in zip(layout.keys, row[:key_count], strict=True)}
    window = None if layout.group is None else _window_text(key.pop(layout.group))
    kind, cells = str(row[key_count]), row[key_count + 1 :]
    differing_values = [
        (v.name, cells[3 * i], cells[3 * i + 1]) for i, v in enumerate(layout.values) if cells[3 * i + 2]
    ]
    return [
        Difference(
            window_start=window,
            key=key,
            measure=name,
            kind=kind,
            streaming=_mask(diff_request, name, actual),
            batch=_mask(diff_request, name, expected),
            difference=None if name in diff_request.masked else subtract(actual, expected, additive=False),
            cause=UNEXPLAINED,
        )
        for name, expected, actual in differing_values or [("(row)", None, None)]
    ]


def _window_text(value: Scalar) -> str:
    """Return a window's start as a report names it; a null is one, too."""
    return "null" if value is None else str(value)


def _mask(diff_request: DiffRequest, name: str, value: object) -> Scalar:
    """Return a value as a report may show it."""
    return MASKED if name in diff_request.masked else scalar(value)


def _measure_distances(
    connection: duckdb.DuckDBPyConnection, diff_request: DiffRequest, layout: Layout, columns: Columns
) -> tuple[Apart, ...]:
    numbers = [
        (i, value.name)
        for i, value in enumerate(layout.values)
        if is_number(columns.common[value.name]) and value.name not in diff_request.masked
    ]
    distances: list[Apart] = []
    for start in range(0, len(numbers), COLUMNS_AT_ONCE):
        batch = numbers[start : start + COLUMNS_AT_ONCE]
        # A query takes as long as its table is wide: a table of some columns keeps many columns linear.
        copied_columns = ", ".join(f"__e{i}, __a{i}, __d{i}" for i, _ in batch)
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE changed_numbers AS SELECT {copied_columns}"
            " FROM different WHERE __diff = 'changed'"
        )
        flags = ", ".join(f"bool_or(__d{i})" for i, _ in batch)
        differing_flags = queries.fetch_row(connection, f"SELECT {flags} FROM changed_numbers")
        pairs = [
            Pair(name=name, expected=f"__e{i}", actual=f"__a{i}", differs=f"__d{i}")
            for (i, name), differs in zip(batch, differing_flags, strict=True)
            if differs
        ]
        distances += diff.measure_distances(connection, "changed_numbers", pairs)
    return tuple(distances)


def _find_segments(
    connection: duckdb.DuckDBPyConnection, diff_request: DiffRequest, layout: Layout, columns: Columns, compared: int
) -> tuple[KeySegment, ...]:
    shown_names = [name for name in layout.keys if name not in diff_request.masked]
    segment_columns = {
        name: SegmentColumn(
            value=identifier(name), all_values=_select_all_rows(name, f"SELECT {identifier(name)}, 1 FROM {RIGHT}")
        )
        for name in shown_names
        if name != layout.group
    }
    if layout.group in shown_names and is_time(columns.common[str(layout.group)]):
        # The rows of each window are known from its digests: none is read again.
        segment_columns |= digests.window_columns(
            layout.group, _select_all_rows(layout.group, "SELECT _group, n FROM digests_1")
        )
    return digests.find_over_represented_values(connection, segment_columns, "different", str(compared))


def _select_all_rows(name: str, actual: str) -> str:
    return digests.every_sql(actual, f"SELECT {identifier(name)}, 1 FROM different WHERE __diff = 'missing'")


def _count_cells(connection: duckdb.DuckDBPyConnection, layout: Layout) -> int:
    flag_list = ", ".join(f"__d{i}::INTEGER" for i in range(len(layout.values))) or "0"
    flag_sum = f"list_sum([{flag_list}])"  # a chain of sums may be too deep
    return fetch_number(connection, f"SELECT sum(greatest(1, {flag_sum})) FROM different")


def _list_worst_keys(
    connection: duckdb.DuckDBPyConnection, diff_request: DiffRequest, layout: Layout, columns: Columns
) -> tuple[WorstKey, ...]:
    """Return the keys with the most different rows over all windows; nothing without a window column."""
    names = [name for name in layout.keys if name != layout.group]
    if layout.group is None or not names or {*names} & {*diff_request.masked}:
        return ()
    keys = ", ".join(show_nanoseconds(identifier(name), columns.common[name]) for name in names)
    query = f"SELECT {keys}, count(*) AS differing FROM different GROUP BY ALL ORDER BY differing DESC, {keys}"
    rows = connection.execute(f"{query} LIMIT {KEYS_AT_MOST}").fetchall()
    return tuple(
        WorstKey(key={n: scalar(v) for n, v in zip(names, row, strict=False)}, rows=int(row[-1])) for row in rows
    )
