"""Causes of differences: classes of rows are merged into the stream's side one by one until it equals the batch.

Sessions that are compared together (`components`) are explained together: a cause must make all of them equal to batch.

The table `touched` has one row for each (window, key) that differs or contradicts the ledger: the keys,
`__copy`, `_kind` (missing, extra, changed; masked: both sides agree although the ledger lists rows that only batch
should have), `_explained` (the stage that reproduces the batch, 0 if none does), per value number i `__b<i>` (batch)
and `__v0_<i>`, `__v1_<i>`, ... (the stream's side after each class). Steps from v0 to the last v and to b telescope.

With the same definition on both sides, batch must equal the stream's side after the last class, even where the sides
agree. A team's SQL may count differently: there a class is a cause only if merging its rows removes the whole
difference. In both cases the cause is a claim of the ledgers, which the log must confirm (`proof`).
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Mapping
from dataclasses import dataclass

from cutover.engine.queries import fetch_number, fetch_row
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.diff import Diff, diff_relations
from cutover.reconcile.comparison.layout import SharedTable, stage
from cutover.reconcile.comparison.sides import LEFT_OUT, SWAPPED, Sides, has_changed_rows, key_columns
from cutover.reconcile.result.finding import DIMENSION, Cause
from cutover.records.classes import Class

UNEXPLAINED = "unexplained"
NAMES = (Class.LATE, Class.FUTURE, Class.DUPLICATE, Class.MALFORMED, DIMENSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Differences between the sides, with their causes by name."""

    plain: Diff  # batch against the stream as it is served
    different_windows: int
    causes: Mapping[str, Cause]

    @property
    def unexplained(self) -> int:
        """Return the number of (window, key) rows that no cause reproduces."""
        return self.causes[UNEXPLAINED].rows


def diff_stages(sides: Sides) -> Diff:
    """Create `different` (the stream as it is served against batch) and `left_1`, ... (the same after each class)."""
    plain = diff_relations(sides.connection, sides.layout, SharedTable.EXPECTED, stage(0), into="different")
    for n in range(1, len(sides.merged) + 1):
        if has_changed_rows(sides.connection, n):
            diff_relations(sides.connection, sides.layout, SharedTable.EXPECTED, stage(n), into=f"left_{n}")
        else:
            previous = f"left_{n - 1}" if n > 1 else "different"
            sides.connection.execute(f"CREATE TEMP TABLE left_{n} AS SELECT * FROM {previous}")
    return plain


def select_claimed_sql(sides: Sides) -> str:
    """Return the query of the places that differ and that a class makes equal, except where the ledger is in doubt."""
    keys = ", ".join(map(identifier, sides.layout.place))
    stages = [len(sides.merged)] if sides.same_definition else range(1, len(sides.merged) + 1)
    equal = " OR ".join(_is_in_none_sql(sides, f"left_{n}", "d") for n in stages)
    return f"SELECT DISTINCT {keys} FROM different d WHERE ({equal}) AND {_is_in_none_sql(sides, 'doubtful', 'd')}"


def find_causes(sides: Sides, plain: Diff) -> Findings:
    """Create `touched` from the tables of `diff_stages` and the ledger; count the rows and records of each cause."""
    sides.connection.execute(f"CREATE TEMP TABLE {SharedTable.TOUCHED} AS {_touched_sql(sides)}")
    windows = fetch_number(
        sides.connection, f"SELECT count(DISTINCT {identifier(sides.layout.place[0])}) FROM {SharedTable.TOUCHED}"
    )
    return Findings(plain=plain, different_windows=windows, causes=_measure_causes(sides))


def _is_in_none_sql(sides: Sides, table: str, row: str) -> str:
    return f"NOT EXISTS (SELECT 1 FROM {table} o WHERE {sides.layout.same_place('o', row)})"


def cause_sql(sides: Sides, name: str, row: str = "t") -> str:
    """Return SQL that is true where a class contributes to the difference of a row of `touched`."""
    if name not in sides.merged:
        return "false"
    stage_number = sides.merged.index(name) + 1
    source = (
        f"moved_{stage_number} l WHERE true" if name == DIMENSION else f"ledger_keys l WHERE l._class = {literal(name)}"
    )
    if sides.has_twin_tables and name == Class.DUPLICATE:
        source = f"{SWAPPED} l WHERE true"
    is_listed = f"EXISTS (SELECT 1 FROM {source} AND {sides.layout.same_place('l', row)})"
    is_needed = f"({row}._explained >= {stage_number} OR {row}._explained = 0 AND {str(sides.same_definition).lower()})"
    return f"({row}.__copy = 1 AND {is_needed} AND {is_listed})"


def _touched_sql(sides: Sides) -> str:
    """Return the query of `touched`; with the same definition it includes rows that agree before a class is merged."""
    stages = [f"left_{n}" for n in range(1, len(sides.merged) + 1)]
    keys = [identifier(key) for key in (*sides.layout.keys, *sides.layout.further)]
    tables = ["different", *(stages if sides.same_definition else [])]
    anchor = " UNION ".join(f"SELECT {', '.join(keys)}, __copy FROM {table}" for table in tables)
    joins = " ".join(
        f"LEFT JOIN {table} {alias} ON {sides.layout.same_key('k', alias)} AND k.__copy = {alias}.__copy"
        for table, alias in (("different", "d"), *((stage, stage) for stage in stages))
    )
    kind = f"CASE WHEN {_MASKED} THEN 'masked' ELSE d.__diff END AS _kind"
    columns = [
        *(f"k.{key}" for key in keys),
        "k.__copy",
        kind,
        f"{_pick_stage_sql(sides)} AS _explained",
        *_value_columns_sql(sides),
    ]
    return f"SELECT {', '.join(columns)} FROM ({anchor}) k {joins}"


_MASKED = "d.__copy IS NULL"


def _pick_stage_sql(sides: Sides) -> str:
    """Return SQL for the first stage that equals the batch without a doubt about the ledger; 0 if there is none."""
    doubt, last_stage = f"NOT {_is_in_none_sql(sides, 'doubtful', 'k')}", len(sides.merged)
    # With the same definition, the sides must stay equal when later classes are merged.
    required_stage = last_stage if sides.same_definition else 0
    settled = {
        n: " AND ".join(_is_settled_sql(sides, m) for m in range(n, max(n, required_stage) + 1))
        for n in range(1, last_stage + 1)
    }
    stages = "".join(f" WHEN {condition} THEN {n}" for n, condition in settled.items())
    return f"CASE WHEN {doubt} THEN 0{stages} ELSE 0 END"


def _is_settled_sql(sides: Sides, n: int) -> str:
    """Return SQL that is true where a stage has no difference in a row, nor in the sessions compared with it."""
    is_unlisted = f"left_{n}.__copy IS NULL"
    if sides.layout.component is None:
        return is_unlisted
    return f"{is_unlisted} AND {_is_in_none_sql(sides, f'left_{n}', 'k')}"


def _value_columns_sql(sides: Sides) -> list[str]:
    """Return the columns of each value: the batch's, and the stream's after each stage (batch's if they are equal)."""
    columns = []
    for i in range(len(sides.layout.values)):
        stages = range(1, len(sides.merged) + 1)
        remaining = "".join(f" WHEN left_{n}.__copy IS NOT NULL THEN left_{n}.__e{i}" for n in stages)
        batch = f"CASE WHEN NOT {_MASKED} THEN d.__e{i}{remaining} END"
        plain = f"CASE WHEN NOT {_MASKED} THEN d.__a{i}{remaining} END"
        columns += [f"{batch} AS __b{i}", f"{plain} AS __v0_{i}"]
        for n in range(1, len(sides.merged) + 1):
            columns.append(f"{_merged_value_sql(sides, n, i, batch, plain)} AS __v{n}_{i}")
    return columns


def _merged_value_sql(sides: Sides, n: int, i: int, batch: str, plain: str) -> str:
    merged = f"CASE WHEN left_{n}.__copy IS NULL THEN {batch} ELSE left_{n}.__a{i} END"
    if sides.same_definition:
        return merged
    picked_stage = _pick_stage_sql(sides)
    return f"CASE WHEN {picked_stage} = 0 THEN {plain} WHEN {picked_stage} <= {n} THEN {batch} ELSE {merged} END"


def _measure_causes(sides: Sides) -> dict[str, Cause]:
    causes = {str(name): _measure_cause(sides, name) for name in NAMES}
    missing = f"coalesce(sum({_missing_records_sql(sides)}), 0)"
    query = f"SELECT count(*), {missing} FROM {SharedTable.TOUCHED} t WHERE _explained = 0"
    rows, records = fetch_row(sides.connection, query)
    return {**causes, UNEXPLAINED: Cause(rows=int(rows), events=int(records))}


def _measure_cause(sides: Sides, name: str) -> Cause:
    if name not in sides.merged:
        return Cause()
    has_cause = cause_sql(sides, name)
    rows = fetch_number(sides.connection, f"SELECT count(*) FROM {SharedTable.TOUCHED} t WHERE {has_cause}")
    is_touched = (
        f"EXISTS (SELECT 1 FROM {SharedTable.TOUCHED} t WHERE {sides.layout.same_place('t', 'g')} AND {has_cause})"
    )
    query = f"SELECT count(*) FROM ({_select_records_sql(sides, name)} AND {is_touched})"
    if name == DIMENSION:
        query = _count_moved_sql(sides, is_touched)
    return Cause(rows=rows, events=fetch_number(sides.connection, query))


def _count_moved_sql(sides: Sides, among: str) -> str:
    """Return the query of the largest number of records that versions can affect; a changed key counts once."""
    window = identifier(sides.layout.keys[0])
    amounts = (
        f"SELECT {window}, sum(of_stream) AS s, sum(of_batch) AS b FROM moved_{sides.merged.index(DIMENSION) + 1} g"
    )
    return f"SELECT coalesce(sum(greatest(s, b)), 0) FROM ({amounts} WHERE {among} GROUP BY ALL)"


def _select_records_sql(sides: Sides, name: str) -> str:
    """Return the query of the records of a class, `g`, that can cause a difference."""
    records = f"SELECT DISTINCT _partition, _offset FROM {SharedTable.LEDGER} g WHERE _class = {literal(name)}"
    if not sides.has_twin_tables:
        return records
    if name == Class.DUPLICATE:
        return f"SELECT DISTINCT __partition, __offset FROM {SWAPPED} g WHERE true"
    # Batch does not count a late row that it calls a duplicate, so the stream does not miss it.
    same_record = "o.__partition = g._partition AND o.__offset = g._offset AND o.window_start = g.window_start"
    return f"{records} AND NOT EXISTS (SELECT 1 FROM {LEFT_OUT} o WHERE {same_record})"


def _missing_records_sql(sides: Sides) -> str:
    """Return SQL for the records that a row still differs by after all causes, if both sides count records."""
    names = [value.name for value in sides.layout.values]
    if "_n" not in names:
        return "0"
    i = names.index("_n")
    return f"abs(coalesce(__b{i}, 0) - coalesce(__v{len(sides.merged)}_{i}, 0))"


def columns_sql(sides: Sides) -> str:
    """Return the columns of `touched` in the order in which `cells.read` expects them."""
    per_value = [
        f"__b{i}, " + ", ".join(f"__v{n}_{i}" for n in range(len(sides.merged) + 1))
        for i in range(len(sides.layout.values))
    ]
    parts = [f"{cause_sql(sides, name)}" for name in sides.merged]
    return ", ".join([key_columns(sides.layout), "_kind", "_explained", *parts, *per_value])
