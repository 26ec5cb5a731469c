"""Draft of a definition: what a job computes, with where each part was seen, and what its owners state or are asked.

Filters that are tried are conditions on one field whose values in the records suggest them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from itertools import combinations
from typing import Any

from cutover.definition.checks.definition import KEYWORDS
from cutover.definition.measures.doubles import Stddev, Variance
from cutover.definition.measures.kinds import Avg, Count, Max, Measure, Min, Sum
from cutover.definition.model.pipeline import WINDOW_END, WINDOW_START, Delta, OutputMode, Pipeline, SparkStream
from cutover.definition.model.topic import IDENTIFIER, RESERVED, JsonField, ParseForm, Topic
from cutover.definition.windows.kinds import Sessions, SlidingWindows
from cutover.errors import DefinitionError
from cutover.quoting import spark_literal

MEASURES: Mapping[str, type[Measure]] = {
    "Count": Count,
    "Sum": Sum,
    "Min": Min,
    "Max": Max,
    "Avg": Avg,
    "Variance": Variance,
    "Stddev": Stddev,
}
"""Measures that a followed job may have, by name."""

_STATED_MEASURE = re.compile(rf"({'|'.join(MEASURES)})\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the caller states of the jobs, because it cannot be seen, or to correct what would be proposed."""

    where: str | None = None
    event_time: str | None = None
    record_id: str | None = None
    window: SlidingWindows | None = None
    window_start: str | None = None  # column of the table
    types: Mapping[str, str] = field(default_factory=dict)  # field of the records -> type of a definition
    keys: Mapping[str, str] = field(default_factory=dict)  # column of the table -> field, or an expression
    measures: Mapping[str, str] = field(default_factory=dict)  # column of the table -> `Sum(amount)`


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Part of a definition that several values fit."""

    option: str  # of the command, which states it
    part: str  # for people, such as `the event time`
    choices: tuple[str, ...]  # the best one first
    reason: str  # why it cannot be known


Choose = Callable[[Question], str]
"""Returns one of the choices of a question, or raises `DefinitionError` if no one can be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Where a part of a draft was seen."""

    text: str
    is_guess: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPart:
    """Column of the key: its name in the definition, and the column of the job's table."""

    field: str
    column: str
    expression: str | None = None  # None: the field of that name


@dataclass(frozen=True, slots=True, order=True)
class MeasureChoice:
    """Measure that a column of the table may have."""

    kind: str  # name in `MEASURES`
    expression: str | None = None  # None: of `Count`
    type: str | None = None  # of the field that is the expression; None: as the draft has it
    condition: str | None = None  # of the records that count; None: all
    has_zero: bool = False  # other records count as 0, so that a sum of none is 0, not null
    cast: str | None = None  # type to which the field, a text, is cast; None: it is not

    @property
    def argument(self) -> str | None:
        """The expression, cast if it has to be."""
        return self.expression if self.cast is None else f"TRY_CAST({self.expression} AS {self.cast})"

    @property
    def conditional(self) -> str | None:
        """The expression with its condition, as a definition has it."""
        if self.condition is None:
            return self.argument
        return f"CASE WHEN {self.condition} THEN {self.argument}{' ELSE 0' if self.has_zero else ''} END"

    @property
    def types(self) -> Mapping[str, str]:
        """Types of the fields that it reads, if they are not as the draft has them."""
        if self.expression is None or self.type is None:
            return {}
        return {name.strip("`"): self.type for name in self.expression.split(" * ")}

    @property
    def text(self) -> str:
        """The measure as a definition has it."""
        return f"{self.kind}()" if self.expression is None else f"{self.kind}({json.dumps(self.conditional)})"

    def make(self) -> Measure:
        """Make the measure."""
        expression = self.conditional
        return Count() if expression is None else MEASURES[self.kind](expression)  # type: ignore[call-arg]  # all but `Count` take an expression


def parse_measure(column: str, text: str) -> MeasureChoice:
    """Parse a measure that the caller states, such as `Sum(amount)`.

    Raises:
        DefinitionError: It is none of those that a followed job may have.
    """
    match = _STATED_MEASURE.fullmatch(text.strip())
    if match is None or (match[1] == "Count") != (not match[2].strip()):
        msg = f"--measure {column}: expected one of {', '.join(MEASURES)} with an expression, such as `Sum(amount)`, "
        raise DefinitionError(msg + f"got `{text[:80]}`.")
    return MeasureChoice(match[1], match[2].strip().strip("\"'") or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    """Draft of a definition whose stream is a team's query."""

    name: str
    topic: str
    checkpoint: str
    table: str
    types: Mapping[str, str]  # field of the records -> type
    stated_types: Mapping[str, str] = field(default_factory=dict)  # of these fields, which no variant changes
    text_numbers: Mapping[str, int] = field(default_factory=dict)
    """Field with numbers in text -> sampled values that are no numbers, which count as null if it has such a type."""
    paths: Mapping[str, str]  # field -> path in the JSON, if it is not the field of its name
    event_time: str
    time_format: str
    window: SlidingWindows | Sessions
    start_column: str  # of the table: where a window starts; with a row per record the event time
    key: tuple[KeyPart, ...]
    value_columns: Mapping[str, str]  # further columns of the table -> type of DuckDB: candidates for measures
    measures: Mapping[str, MeasureChoice] = field(default_factory=dict)  # column of the table -> measure
    parse: ParseForm = "from_json"
    where: str | None = None
    record_id: str | None = None
    output_mode: OutputMode = "append"
    row_per_record: bool = False
    has_counts: bool = True  # an aggregate of the query may count records
    drops_late: bool = True  # an operator of the query has the watermark in its state
    single_watermark: bool = False
    latest_by: str | None = None
    end_column: str | None = None  # of the table: where a session ends
    reads_uncommitted: bool = False
    seen: Mapping[str, Seen] = field(default_factory=dict)  # part, such as `window` or `measures.total`
    omitted: Mapping[str, str] = field(default_factory=dict)  # column of the table -> reason

    @property
    def keeps_late(self) -> bool:
        """Return whether the job drops no late record; a grouping by sessions drops some in complete mode, too."""
        is_complete = self.output_mode == "complete" and not self.window.merges
        return not self.drops_late or is_complete or (self.row_per_record and self.record_id is None)

    @property
    def derive(self) -> Mapping[str, str]:
        """Derived columns: the parts of the key that are expressions."""
        return {part.field: part.expression for part in self.key if part.expression is not None}

    def make_pipeline(self, measures: Mapping[str, Measure] | None = None) -> Pipeline:
        """Make the definition; with other measures to try them."""
        schema = ", ".join(
            f"`{name}` {kind}{' NOT NULL' if name == self.record_id else ''}" for name, kind in self.types.items()
        )
        return Pipeline(
            name=self.name,
            source=Topic(
                name=self.topic,
                schema=schema,
                event_time=self.event_time,
                time_format=self.time_format,
                parse=self.parse,
                fields={name: JsonField(path=path) for name, path in self.paths.items()},
                isolation="read_uncommitted" if self.reads_uncommitted else "read_committed",
                record_id=self.record_id,
            ),
            where=self.where,
            derive=self.derive,
            key=tuple(part.field for part in self.key),
            window=self.window,
            measures=self.make_measures() if measures is None else measures,
            stream=SparkStream(
                table=Delta(self.table),
                checkpoint=self.checkpoint,
                output_mode=self.output_mode,
                row_per_record=self.row_per_record,
                single_watermark=self.single_watermark,
                latest_by=self.latest_by,
            ),
        )

    def make_measures(self) -> dict[str, Measure]:
        """Make the measures by their names in the definition."""
        return {self.name_measure(column): choice.make() for column, choice in self.measures.items()}

    def name_measure(self, column: str) -> str:
        """Return the name of the measure of a column: its own, unless the definition cannot have it."""
        name = re.sub(r"[^A-Za-z0-9_]+", "_", column)
        used = {part.field.lower() for part in self.key}
        is_usable = IDENTIFIER.match(name) and name.lower() not in RESERVED | KEYWORDS | used
        return name if is_usable else f"measure_{name}"

    def list_table_columns(self) -> list[str]:
        """List the columns of the table that are read."""
        bounds = [self.start_column, *([] if self.end_column is None else [self.end_column])]
        return list(dict.fromkeys([*bounds, *(part.column for part in self.key), *self.value_columns]))

    def list_columns(self) -> Iterator[tuple[str, str]]:
        """Yield the names of the definition that the table has another column for."""
        if self.row_per_record:
            names = [(self.event_time, self.start_column)]
        else:
            struct = "session_window" if self.window.merges else "window"
            bounds = [(WINDOW_START, "start", self.start_column)]
            bounds += [] if self.end_column is None else [(WINDOW_END, "end", self.end_column)]
            names = [(name, column) for name, field, column in bounds if column != f"{struct}.{field}"]
        names += [(part.field, part.column) for part in self.key]
        names += [
            (self.name_measure(column), column)
            for column, choice in self.measures.items()
            if not (self.row_per_record and choice.expression is None)
        ]
        return ((name, column) for name, column in names if name != column)


def quote_name(name: str) -> str:
    """Quote a name in an expression if it is a keyword of SQL."""
    return f"`{name}`" if name.lower() in KEYWORDS else name


MAX_VALUES = 8
"""Distinct values of a field up to which filters by its values are tried."""

MAX_SUBSET_VALUES = 5
"""Distinct values of a field up to which filters by several of its values are tried."""

Values = Mapping[str, Any]
Passes = Callable[[Values], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldCondition:
    """FieldCondition on one field, which a null never passes."""

    field: str
    operator: str  # `=`, `<>`, `IN`, `>`, `>=`, `<`, `<=` or `IS NOT NULL`
    values: tuple[Any, ...] = ()

    def implies(self, other: "FieldCondition") -> bool:
        """Return whether each value of the field that passes this condition also passes another one, by their form."""
        if self.field != other.field:
            return False
        if other.operator == "IS NOT NULL" or self == other:
            return True
        if self.operator in {"=", "IN"}:
            return all(map(other.passes_value, self.values))
        is_bound = self.operator in {">", ">=", "<", "<="}
        if is_bound and other.operator == "<>":
            return not self.passes_value(other.values[0])
        if not is_bound or other.operator[0] != self.operator[0]:
            return False
        return other.passes_value(self.values[0])

    def passes_value(self, value: Any) -> bool:
        """Return whether a value passes that is not null."""
        if self.operator == "IS NOT NULL":
            return True
        if self.operator in {"=", "IN"}:
            return value in self.values
        bound = self.values[0]
        if self.operator == "<>":
            return bool(value != bound)
        is_beyond = value > bound if self.operator[0] == ">" else value < bound
        return bool(is_beyond or ("=" in self.operator and value == bound))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """FieldCondition on the fields of a record."""

    sql: str | None  # None: all records pass
    passes: Passes = field(compare=False)
    conditions: tuple[FieldCondition, ...] = field(default=(), compare=False)  # that all have to pass

    @property
    def may_pass(self) -> bool:
        """Return whether some record may pass: no field has to be equal to values that another condition excludes."""
        return all(
            any(
                all(other.passes_value(value) for other in self.conditions if other.field == one.field)
                for value in one.values
            )
            for one in self.conditions
            if one.operator in {"=", "IN"}
        )

    def is_equivalent(self, other: "Filter") -> bool:
        """Return whether two filters pass the same records, whatever the records are, as far as their form shows it."""
        return _imply(self.conditions, other.conditions) and _imply(other.conditions, self.conditions)


def _imply(conditions: Sequence[FieldCondition], others: Sequence[FieldCondition]) -> bool:
    return all(any(condition.implies(other) for condition in conditions) for other in others)


NO_FILTER = Filter(sql=None, passes=lambda _: True)


def combine_filters(first: Filter, second: Filter) -> Filter:
    """Make the conjunction of two filters."""
    if first.sql is None or second.sql is None or first.sql == second.sql:
        return second if first.sql is None else first
    return Filter(
        sql=f"{first.sql} AND {second.sql}",
        passes=lambda values: first.passes(values) and second.passes(values),
        conditions=(*first.conditions, *second.conditions),
    )


def list_filters(draft: JobDraft, records: Sequence[Values]) -> Iterator[Filter]:
    """Yield the filters that the values of the records suggest: by few values, by nulls, and by the sign of numbers."""
    keys = {part.field for part in draft.key}
    for name, kind in draft.types.items():
        if name == draft.event_time:
            continue
        values = {record[name] for record in records}
        present = values - {None}
        if None in values and present:
            yield _filter(name, "IS NOT NULL")
        has_few = 1 < len(values) <= MAX_VALUES
        if name not in keys and has_few and kind in {"string", "boolean", "int", "bigint"}:
            yield from _list_value_filters(name, sorted(present))
        if kind not in {"string", "boolean", "timestamp", "date"} and len(present) > MAX_VALUES:
            yield from _list_sign_filters(name, present)


def _filter(name: str, operator: str, *values: Any, text: str | None = None) -> Filter:
    condition = FieldCondition(field=name, operator=operator, values=values)
    listed = text or ", ".join(map(_literal, values))
    operand = f" ({listed})" if operator == "IN" else f" {listed}" if values else ""

    def passes(record: Values) -> bool:
        return record[name] is not None and condition.passes_value(record[name])

    return Filter(sql=f"{quote_name(name)} {operator}{operand}", passes=passes, conditions=(condition,))


def _list_value_filters(name: str, values: Sequence[Any]) -> Iterator[Filter]:
    """Yield `=`, `<>`, and `IN` for each set of values; of booleans `=` alone, since the others are the same."""
    for value in values:
        yield _filter(name, "=", value)
        if not isinstance(value, bool):
            yield _filter(name, "<>", value)
    for size in range(2, len(values) - 1 if len(values) <= MAX_SUBSET_VALUES else 0):
        for subset in combinations(values, size):
            yield _filter(name, "IN", *subset)


def _list_sign_filters(name: str, values: set[Any]) -> Iterator[Filter]:
    if any(value <= 0 for value in values):
        yield _filter(name, ">", 0)
        yield _filter(name, "<>", 0)
    if any(value < 0 for value in values):
        yield _filter(name, ">=", 0)
        yield _filter(name, "<", 0)


def _literal(value: Any) -> str:
    return spark_literal(value) if isinstance(value, str) else str(value).lower()


def list_number_values(draft: JobDraft, records: Sequence[Values]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the fields with many numbers, with their distinct values, ascending."""
    for name, kind in draft.types.items():
        values = {record[name] for record in records} - {None}
        if (kind in {"int", "bigint", "double"} or kind.startswith("decimal")) and len(values) > MAX_VALUES:
            yield name, sorted(values)


def make_lower_bound(name: str, values: Sequence[Any], place: int) -> Filter:
    """Make the condition that the largest `place + 1` values pass."""
    last, below = values[-place - 1], values[-place - 2] if place + 1 < len(values) else None
    bound = _round_between(below, last)
    return _filter(name, ">=", type(last)(bound), text=str(bound))


def make_upper_bound(name: str, values: Sequence[Any], place: int) -> Filter:
    """Make the condition that the smallest `place + 1` values pass."""
    last, above = values[place], values[place + 1] if place + 1 < len(values) else None
    bound = -_round_between(None if above is None else -above, -last)
    return _filter(name, "<=", type(last)(bound), text=str(bound))


def _round_between(below: Any, last: Any) -> Decimal:
    """Return the number with the fewest digits that is larger than a value, and not larger than another one."""
    exact = Decimal(str(last))
    for digits in range(-6, 7):
        rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR)
        if below is None or rounded > Decimal(str(below)):
            return rounded if digits > 0 else Decimal(int(rounded))
    return exact
