"""Kinds of defects, each an edit of some rows of one side; a row is a mapping of columns to plain values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from random import Random
from typing import Any

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]


class PlantSide(StrEnum):
    """Side whose rows are edited."""

    STREAM = "stream"  # accepted partial rows of the epoch log
    BATCH = "batch"  # the result


class Choice(StrEnum):
    """Rows that a defect changes."""

    ANY = "any"  # here and there
    RUN = "run"  # in a row: of one epoch, or of neighbouring windows
    PAIRS = "pairs"  # two and two of one window


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantColumns:
    """Columns that a defect may change."""

    key: tuple[str, ...]
    values: tuple[str, ...]  # measures, states and the number of records, as far as they are compared


Edit = Callable[[Rows, PlantColumns, Random], Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantKind:
    """One sort of defect."""

    name: str
    edit: Edit  # chosen rows -> their replacement
    sides: tuple[PlantSide, ...] = (PlantSide.STREAM, PlantSide.BATCH)
    choice: Choice = Choice.ANY
    max_rows: int = 20  # rows


def _drop(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    del rows, columns, random
    return []


def _duplicate(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    del columns, random
    return [*rows, *(dict(row) for row in rows)]


def _delay(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Count rows one window too late."""
    del columns, random
    return [_shift(row, row["window_end"] - row["window_start"]) for row in rows]


def _shift_zone(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Take local times for UTC."""
    del columns
    hours = random.choice([hours for hours in range(-12, 15) if hours])
    return [_shift(row, timedelta(hours=hours)) for row in rows]


def _shift(row: Row, by: timedelta) -> dict[str, Any]:
    return dict(row) | {name: row[name] + by for name in ("window_start", "window_end")}


def _change_values(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Change one value of each row, by its kind."""
    return [_change_one(row, columns.values, random) for row in rows]


def _change_one(row: Row, names: Sequence[str], random: Random) -> dict[str, Any]:
    name = random.choice(names)
    return dict(row) | {name: change_value(row[name], random)}


def change_value(value: Any, random: Random) -> Any:
    """Return another value of the same kind; of null, which could be of any, null."""
    changes = (change for kind, change in _CHANGES if isinstance(value, kind))
    change = next(changes, None)
    return None if change is None else change(value, random)


_CHANGES: tuple[tuple[type, Callable[[Any, Random], Any]], ...] = (  # the first that fits: a bool is an int, too
    (bool, lambda value, _: not value),
    (int, lambda value, random: value + random.choice((-1, 1, 7, 1000))),
    (float, lambda value, random: value * (1 + 10 ** random.uniform(-6, 0)) + random.choice((0.0, 1.0))),
    (Decimal, lambda value, random: value + Decimal((0, (random.randint(1, 9),), int(value.as_tuple().exponent)))),
    (str, lambda value, _: value[:-1] if len(value) > 1 else value + "x"),
    (datetime, lambda value, random: value + timedelta(seconds=random.choice((-1, 1, 3600)))),
    (date, lambda value, _: value + timedelta(days=1)),
    (list, lambda value, _: value[:-1]),
)


def _lose_value(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Leave one value of each row empty."""
    return [dict(row) | {random.choice(columns.values): None} for row in rows]


def _round(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Round numbers with a fraction to whole ones."""
    del random
    numbers = {name for name in columns.values for row in rows if isinstance(row[name], float | Decimal)}
    return [dict(row) | {name: _round_value(row[name]) for name in sorted(numbers)} for row in rows]


def _round_value(value: Any) -> Any:
    return None if value is None else round(value) if value == value else value  # noqa: PLR0124 -- NaN stays


def _swap_keys(rows: Rows, columns: PlantColumns, random: Random) -> Rows:
    """Give each of two rows the values of the other one."""
    del random
    pairs = zip(rows[::2], rows[1::2], strict=False)
    return [dict(a) | {n: b[n] for n in columns.values} for pair in pairs for a, b in (pair, pair[::-1])]


ROW_KINDS = (
    PlantKind(name="dropped rows", edit=_drop),
    PlantKind(name="doubled rows", edit=_duplicate),
    PlantKind(name="delayed rows", edit=_delay),
    PlantKind(name="changed values", edit=_change_values),
    PlantKind(name="lost values", edit=_lose_value),
    PlantKind(name="lost range", edit=_drop, choice=Choice.RUN, max_rows=100),
    PlantKind(name="shifted time zone", edit=_shift_zone, choice=Choice.RUN, max_rows=50),
    PlantKind(name="rounded numbers", edit=_round),
    PlantKind(name="swapped keys", edit=_swap_keys, choice=Choice.PAIRS),
)
"""What changes rows; whether an edit changes a result is found out by folding, so none is counted that does not."""

REORDERED, TRUNCATED, FLIPPED = "reordered rows", "truncated table", "flipped bit"
"""Edits of a whole table. Reordered rows are no defect: any finding there is a false alarm."""

OTHER_VERSION = "other dimension row"
"""Batch joined a stretch of the log with other rows of a dimension than the stream did."""
