"""Why the sides differ: classes of rows are merged into the stream's side one by one until it equals the batch.

What is judged together (`components`) is explained together: a cause must make the whole of it equal to the batch.

The table `touched` has one row for each (window, key) that differs or that the ledger does not bear out: the keys,
`__copy`, `_kind` (missing, extra, changed; masked: both sides agree although the ledger lists rows that only batch
should have), `_explained` (the stage that reproduces the batch, 0 if none does), per value number i `__b<i>` (batch)
and `__v0_<i>`, `__v1_<i>`, ... (the stream's side after each class). Steps from v0 to the last v and to b telescope.

With the same definition on both sides batch must equal the stream's side after the last class, also where the sides
agree. A team's SQL may count what it likes: there a class is a cause only where its rows make the whole difference go
away. In both cases that is a claim of the ledgers, which the log has to bear out (`proof`).
"""

# ruff: noqa: S608 -- every name in a query is quoted by `identifier`

from collections.abc import Mapping
from dataclasses import dataclass

from cutover.engine.queries import first, number
from cutover.quoting import identifier, literal
from cutover.reconcile.comparison.diff import Diff, diff
from cutover.reconcile.comparison.duplicates import LEFT_OUT, SWAPPED
from cutover.reconcile.comparison.shared_tables import SharedTable, stage
from cutover.reconcile.comparison.sides import DIMENSION, Sides, has_moved, key_columns
from cutover.reconcile.result.finding import Cause
from cutover.records.classes import Class

UNEXPLAINED = "unexplained"
NAMES = (Class.LATE, Class.FUTURE, Class.DUPLICATE, Class.MALFORMED, DIMENSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What differs, and the causes by name."""

    plain: Diff  # batch against what the stream serves
    different_windows: int
    causes: Mapping[str, Cause]

    @property
    def unexplained(self) -> int:
        """Return the number of (window, key) rows without a cause that reproduces them."""
        return self.causes[UNEXPLAINED].rows


def differ(sides: Sides) -> Diff:
    """Make `different` (the stream as it is served against the batch) and `left_1`, ... (after each class)."""
    plain = diff(sides.connection, sides.layout, SharedTable.EXPECTED, stage(0), into="different")
    for n in range(1, len(sides.merged) + 1):
        if has_moved(sides.connection, n):
            diff(sides.connection, sides.layout, SharedTable.EXPECTED, stage(n), into=f"left_{n}")
        else:
            before = f"left_{n - 1}" if n > 1 else "different"
            sides.connection.execute(f"CREATE TEMP TABLE left_{n} AS SELECT * FROM {before}")
    return plain


def select_claimed_sql(sides: Sides) -> str:
    """Return the query of the places that differ and that some class makes equal, unless the ledger is in doubt."""
    keys = ", ".join(map(identifier, sides.layout.place))
    wanted = [len(sides.merged)] if sides.same_definition else range(1, len(sides.merged) + 1)
    equal = " OR ".join(_is_in_none_sql(sides, f"left_{n}", "d") for n in wanted)
    return f"SELECT DISTINCT {keys} FROM different d WHERE ({equal}) AND {_is_in_none_sql(sides, 'doubtful', 'd')}"


def find(sides: Sides, plain: Diff) -> Findings:
    """Make `touched`, and count rows and records behind each cause. Needs the tables of `differ` and of the ledger."""
    sides.connection.execute(f"CREATE TEMP TABLE {SharedTable.TOUCHED} AS {_query_touched(sides)}")
    windows = number(
        sides.connection, f"SELECT count(DISTINCT {identifier(sides.layout.place[0])}) FROM {SharedTable.TOUCHED}"
    )
    return Findings(plain=plain, different_windows=windows, causes=_causes(sides))


def _is_in_none_sql(sides: Sides, table: str, row: str) -> str:
    return f"NOT EXISTS (SELECT 1 FROM {table} o WHERE {sides.layout.same_place('o', row)})"


def cause_sql(sides: Sides, name: str, row: str = "t") -> str:
    """Return SQL that is true where a class takes part in the difference of a row of `touched`."""
    if name not in sides.merged:
        return "false"
    at = sides.merged.index(name) + 1
    listed = f"moved_{at} l WHERE true" if name == DIMENSION else f"ledger_keys l WHERE l._class = {literal(name)}"
    if sides.tells_twins and name == Class.DUPLICATE:
        listed = f"{SWAPPED} l WHERE true"
    there = f"EXISTS (SELECT 1 FROM {listed} AND {sides.layout.same_place('l', row)})"
    reached = f"({row}._explained >= {at} OR {row}._explained = 0 AND {str(sides.same_definition).lower()})"
    return f"({row}.__copy = 1 AND {reached} AND {there})"


def _query_touched(sides: Sides) -> str:
    """Return the query of `touched`; of the same definition also with rows that agree before a class is merged."""
    stages = [f"left_{n}" for n in range(1, len(sides.merged) + 1)]
    keys = [identifier(key) for key in (*sides.layout.keys, *sides.layout.further)]
    found = ["different", *(stages if sides.same_definition else [])]
    anchor = " UNION ".join(f"SELECT {', '.join(keys)}, __copy FROM {table}" for table in found)
    joins = " ".join(
        f"LEFT JOIN {table} {alias} ON {sides.layout.same_key('k', alias)} AND k.__copy = {alias}.__copy"
        for table, alias in (("different", "d"), *((stage, stage) for stage in stages))
    )
    kind = f"CASE WHEN {_MASKED} THEN 'masked' ELSE d.__diff END AS _kind"
    told = [*(f"k.{key}" for key in keys), "k.__copy", kind, f"{_pick_stage_sql(sides)} AS _explained", *_values(sides)]
    return f"SELECT {', '.join(told)} FROM ({anchor}) k {joins}"


_MASKED = "d.__copy IS NULL"


def _pick_stage_sql(sides: Sides) -> str:
    """Return SQL for the first stage that equals the batch: it left no difference, and the ledger is not in doubt."""
    doubt, last = f"NOT {_is_in_none_sql(sides, 'doubtful', 'k')}", len(sides.merged)
    # Of the same definition what later classes add must leave the sides equal.
    upto = last if sides.same_definition else 0
    settled = {
        n: " AND ".join(_is_settled_sql(sides, m) for m in range(n, max(n, upto) + 1)) for n in range(1, last + 1)
    }
    stages = "".join(f" WHEN {is_so} THEN {n}" for n, is_so in settled.items())
    return f"CASE WHEN {doubt} THEN 0{stages} ELSE 0 END"


def _is_settled_sql(sides: Sides, n: int) -> str:
    """Return SQL that is true where a stage left no difference in what is judged together with a row."""
    alone = f"left_{n}.__copy IS NULL"
    if sides.layout.component is None:
        return alone
    return f"{alone} AND {_is_in_none_sql(sides, f'left_{n}', 'k')}"


def _values(sides: Sides) -> list[str]:
    """Return, per value, the batch's and the stream's after each stage; a stage left no row: it equals the batch."""
    columns = []
    for i in range(len(sides.layout.values)):
        stages = range(1, len(sides.merged) + 1)
        apart = "".join(f" WHEN left_{n}.__copy IS NOT NULL THEN left_{n}.__e{i}" for n in stages)
        batch = f"CASE WHEN NOT {_MASKED} THEN d.__e{i}{apart} END"
        plain = f"CASE WHEN NOT {_MASKED} THEN d.__a{i}{apart} END"
        columns += [f"{batch} AS __b{i}", f"{plain} AS __v0_{i}"]
        for n in range(1, len(sides.merged) + 1):
            columns.append(f"{_after(sides, n, i, batch, plain)} AS __v{n}_{i}")
    return columns


def _after(sides: Sides, n: int, i: int, batch: str, plain: str) -> str:
    left = f"CASE WHEN left_{n}.__copy IS NULL THEN {batch} ELSE left_{n}.__a{i} END"
    if sides.same_definition:
        return left
    at = _pick_stage_sql(sides)
    return f"CASE WHEN {at} = 0 THEN {plain} WHEN {at} <= {n} THEN {batch} ELSE {left} END"


def _causes(sides: Sides) -> dict[str, Cause]:
    found = {str(name): _cause(sides, name) for name in NAMES}
    query = (
        f"SELECT count(*), coalesce(sum({_records_off(sides)}), 0) FROM {SharedTable.TOUCHED} t WHERE _explained = 0"
    )
    rows, records = first(sides.connection, query)
    return {**found, UNEXPLAINED: Cause(rows=int(rows), events=int(records))}


def _cause(sides: Sides, name: str) -> Cause:
    if name not in sides.merged:
        return Cause()
    part = cause_sql(sides, name)
    rows = number(sides.connection, f"SELECT count(*) FROM {SharedTable.TOUCHED} t WHERE {part}")
    among = f"EXISTS (SELECT 1 FROM {SharedTable.TOUCHED} t WHERE {sides.layout.same_place('t', 'g')} AND {part})"
    query = f"SELECT count(*) FROM ({_records_of(sides, name)} AND {among})"
    if name == DIMENSION:
        query = _count_moved_sql(sides, among)
    return Cause(rows=rows, events=number(sides.connection, query))


def _count_moved_sql(sides: Sides, among: str) -> str:
    """Return the query of how many records a version is behind, at most: one that changes its key counts once."""
    window = identifier(sides.layout.keys[0])
    moved = f"SELECT {window}, sum(of_stream) AS s, sum(of_batch) AS b FROM moved_{sides.merged.index(DIMENSION) + 1} g"
    return f"SELECT coalesce(sum(greatest(s, b)), 0) FROM ({moved} WHERE {among} GROUP BY ALL)"


def _records_of(sides: Sides, name: str) -> str:
    """Return the query of the records of a class, `g`, that may stand behind a difference."""
    listed = f"SELECT DISTINCT _partition, _offset FROM {SharedTable.LEDGER} g WHERE _class = {literal(name)}"
    if not sides.tells_twins:
        return listed
    if name == Class.DUPLICATE:
        return f"SELECT DISTINCT __partition, __offset FROM {SWAPPED} g WHERE true"
    # Of a late row that batch calls a duplicate nothing is missing.
    out = "o.__partition = g._partition AND o.__offset = g._offset AND o.window_start = g.window_start"
    return f"{listed} AND NOT EXISTS (SELECT 1 FROM {LEFT_OUT} o WHERE {out})"


def _records_off(sides: Sides) -> str:
    """Return SQL for the records by which a row is off after all causes, where both sides count records."""
    names = [value.name for value in sides.layout.values]
    if "_n" not in names:
        return "0"
    i = names.index("_n")
    return f"abs(coalesce(__b{i}, 0) - coalesce(__v{len(sides.merged)}_{i}, 0))"


def columns_of(sides: Sides) -> str:
    """Return the columns of `touched` in the order that `cells.read` takes them."""
    per_value = [
        f"__b{i}, " + ", ".join(f"__v{n}_{i}" for n in range(len(sides.merged) + 1))
        for i in range(len(sides.layout.values))
    ]
    parts = [f"{cause_sql(sides, name)}" for name in sides.merged]
    return ", ".join([key_columns(sides.layout), "_kind", "_explained", *parts, *per_value])
