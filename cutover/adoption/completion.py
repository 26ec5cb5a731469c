"""Completion of a draft: the types that its numbers may have, and the measures, filter and mode that the log shows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from cutover.adoption.draft import Choose, JobDraft, MeasureChoice, Question, Seen, Stated, parse_measure, quote_name
from cutover.adoption.evidence import Aggregate, QueryShape
from cutover.adoption.hypotheses import DraftCheck, Match
from cutover.counts import count_noun
from cutover.definition.checks.measures import SUMMABLE_DIGITS
from cutover.errors import DefinitionError

_SUM_DIGITS = 10
"""Digits that Spark adds to the precision of a decimal that it sums."""

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)", re.IGNORECASE)

MAX_VARIANTS = 6
"""Types of numbers that are tried."""

MAX_FACTORS = 6
"""Number of numeric fields up to which sums of their products are tried."""

MAX_ASKED = 6
"""Equally good values among which a question lets one choose."""

_AVERAGE_DIGITS = 4  # that Spark adds to precision and scale of a decimal that it averages
_WHOLE_DIGITS = {"int": 10, "bigint": 19}
_WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
_ORDERED = {"Min", "Max"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Types of the fields, and the measures that are tried with them."""

    types: Mapping[str, str]
    choices: tuple[MeasureChoice, ...]


def list_variants(draft: JobDraft, shape: QueryShape) -> list[Variant]:
    """List the types that the numbers of a draft may have: those whose aggregates have the types of the columns."""
    if draft.row_per_record:
        return [Variant(types=draft.types, choices=tuple(dict.fromkeys(draft.measures.values())))]
    kinds = list(dict.fromkeys(kind for aggregate in shape.aggregates for kind in aggregate.measures))
    keys = {part.field for part in draft.key}
    numbers = [
        name
        for name, kind in draft.types.items()
        if name not in keys
        and (is_number_type(kind) or (name in draft.text_numbers and name not in draft.stated_types))
    ]
    others = [name for name in draft.types if name not in numbers]
    columns = list(draft.value_columns.values())
    counts = sum("Count" in aggregate.measures for aggregate in shape.aggregates)
    if len(columns) == len(shape.aggregates) and counts == sum(column in _WHOLE for column in columns):
        columns = [column for column in columns if column not in _WHOLE]  # they are the counts
    found = dict.fromkeys(kind for column in columns for kind in list_argument_types(column, kinds))
    texts = [name for name in draft.text_numbers if name in numbers and name not in draft.stated_types]
    compared = {name for name in texts if name in re.findall(r"\w+", draft.where or "")}  # as they are
    variants = []
    for place, number in enumerate(list(found)[:MAX_VARIANTS] or ["bigint"]):
        is_decimal = number.startswith("decimal")
        types = {name: number if name in numbers else kind for name, kind in draft.types.items()}
        types |= {} if is_decimal else dict.fromkeys(texts, "string")  # of which from_json reads no other numbers
        types |= {**{name: draft.types[name] for name in compared}, **draft.stated_types}
        read = [name for name in numbers if name not in texts or (is_decimal and types[name] == number)]
        choices = [MeasureChoice("Count")] if place == 0 and "Count" in kinds else []
        factors = [name for name in read if draft.stated_types.get(name, number) == number]
        choices += _list_choices(kinds, read, number, factors, others if place == 0 else ())
        choices += _list_casts(draft, kinds, number, types)
        if draft.parse == "avro":  # a column is read by the type of its writer
            choices = [replace(choice, type=None) for choice in choices]
            return [Variant(types=draft.types, choices=tuple(dict.fromkeys(choices)))]
        variants.append(Variant(types=types, choices=tuple(choices)))
    return variants


def _list_choices(
    kinds: Sequence[str], numbers: Sequence[str], number: str, factors: Sequence[str], others: Sequence[str]
) -> Iterator[MeasureChoice]:
    """Yield measures of fields with numbers, of products of the ones of one type, and of other fields."""
    for kind in kinds:
        if kind != "Count":
            yield from (MeasureChoice(kind, quote_name(name), number) for name in numbers)
        if kind in {"Sum", "Avg"} and len(numbers) <= MAX_FACTORS and not number.startswith("decimal"):
            products = combinations(map(quote_name, factors), 2)
            yield from (MeasureChoice(kind, " * ".join(product), number) for product in products)
        if kind in _ORDERED:
            yield from (MeasureChoice(kind, quote_name(name)) for name in others)


def _list_casts(
    draft: JobDraft, kinds: Sequence[str], number: str, types: Mapping[str, str]
) -> Iterator[MeasureChoice]:
    """Yield measures of texts that are cast to a number, as `try_cast(fare AS double)` does."""
    keys = {part.field for part in draft.key}
    for name in draft.text_numbers:
        is_cast = types[name] != number and (number == "double" or (number == "bigint" and types[name] == "string"))
        if is_cast and name not in keys:
            yield from (
                MeasureChoice(kind, quote_name(name), "string", cast=number) for kind in kinds if kind != "Count"
            )


def is_number_type(kind: str) -> bool:
    """Return whether a type of our schemas is one of numbers."""
    return kind in {"int", "bigint", "double"} or kind.startswith("decimal")


def list_argument_types(column: str, kinds: Sequence[str]) -> list[str]:
    """List the types of a field whose aggregate has a type of DuckDB."""
    digits = _DECIMAL.fullmatch(column)
    if digits is None:
        return ["bigint"] if column in _WHOLE else ["double", "bigint"] if column in {"DOUBLE", "FLOAT"} else []
    precision, scale = int(digits[1]), int(digits[2])
    argument_digits = [
        *([(precision - _SUM_DIGITS, scale)] if "Sum" in kinds else []),
        *([(precision - _AVERAGE_DIGITS, scale - _AVERAGE_DIGITS)] if "Avg" in kinds else []),
        *([(precision, scale)] if _ORDERED & set(kinds) else []),
    ]
    return [f"decimal({total},{fraction})" for total, fraction in argument_digits if total > fraction >= 0]


def drop_equivalent(matches: Sequence[Match]) -> list[Match]:
    """Drop matches whose filter passes the same records as that of one before, whatever the records are."""
    kept = list[Match]()
    for match in matches:
        alike = (known for known in kept if replace(known.draft, where=match.draft.where) == match.draft)
        if not any(known.condition.is_equivalent(match.condition) for known in alike):
            kept.append(match)
    return kept


def choose_match(matches: Sequence[Match], stated: Stated, choose: Choose) -> Match:
    """Choose one of the equally good matches: those parts in which they differ are asked for."""
    remaining = list(matches)
    for name, option, part in (
        ("event_time", "--event-time FIELD", "the event time"),
        ("where", "--where CONDITION", "the filter"),
    ):
        values = list(dict.fromkeys(getattr(match.draft, name) or "none" for match in remaining))[:MAX_ASKED]
        if len(values) > 1 and getattr(stated, name) is None:
            reason = "each of them reproduces as many cells of the table"
            value = choose(Question(option=option, part=part, choices=tuple(values), reason=reason))
            remaining = [match for match in remaining if (getattr(match.draft, name) or "none") == value]
    return remaining[0]


def complete_draft(match: Match, shape: QueryShape, stated: Stated, choose: Choose) -> JobDraft:
    """Complete a draft with the measure of each column.

    A column is left out if no measure reproduces at least half of its cells, unless its place says that it is an
    aggregate of the query.

    Raises:
        DefinitionError: No measure remains, or a stated one is invalid.
    """
    draft = match.draft
    if draft.row_per_record:
        return choose_types(draft, match.equal)
    unknown = [column for column in stated.measures if column not in draft.value_columns]
    if unknown:
        msg = f"--measure {unknown[0]}: expected a column of the table, it has {', '.join(draft.value_columns)}."
        raise DefinitionError(msg)
    by_place = _map_aggregates(draft, shape)
    measures, seen, omitted = dict[str, MeasureChoice](), dict(draft.seen), dict(draft.omitted)
    for column in draft.value_columns:
        choices, equal = rank_measures(match, column, shape), match.equal[column]
        if column in stated.measures:
            measures[column] = parse_measure(column, stated.measures[column])
            seen[f"measures.{column}"] = Seen(text="--measure")
        elif not choices or (2 * equal < match.rows and column not in by_place) or (not equal and match.rows):
            cells = f"{equal:,} of {count_noun(match.rows, 'cell')}"
            nearest = f"; nearest is {choices[0].text} in {cells}" if equal else ""
            omitted[column] = f"no aggregate of a field reproduces it{nearest}"
        else:
            measures[column] = _choose_measure(column, choices, choose)
            seen[f"measures.{column}"] = _describe_measure(measures[column], choices, equal, match.rows)
    if not measures:
        reasons = "; ".join(f"`{name}`: {reason}" for name, reason in omitted.items())
        msg = f"Table `{draft.table}`: expected a column that an aggregate of a field reproduces: {reasons}."
        raise DefinitionError(msg + "\nHint: `--measure COLUMN=MEASURE` states one, `--where CONDITION` the filter.")
    return choose_types(replace(draft, measures=measures, seen=seen, omitted=omitted), match.equal)


def choose_types(draft: JobDraft, equal: Mapping[str, int]) -> JobDraft:
    """Give each field the type with which the measures reproduce most cells.

    Texts that are numbers in no measure and no condition remain texts. A measure whose field is a text, because another
    one reproduces more cells with it, casts it.

    Args:
        draft: With the measures of its columns.
        equal: Column -> cells that its measure reproduces.
    """
    votes: dict[str, dict[str, int]] = {}
    for column, choice in draft.measures.items():
        weight = 0 if " * " in (choice.expression or "") else equal[column]
        for name, kind in choice.types.items():
            votes.setdefault(name, {}).setdefault(kind, 0)
            votes[name][kind] += weight
    conditions = " ".join([draft.where or "", *(choice.condition or "" for choice in draft.measures.values())])
    stated = " ".join(choice.expression or "" for choice in draft.measures.values() if choice.type is None)
    compared = {*re.findall(r"\w+", conditions), *re.findall(r"\w+", stated)}
    types = dict(draft.types)
    types |= {name: "string" for name, others in draft.text_numbers.items() if others and name not in compared}
    for name, kinds in votes.items():
        is_text = name in compared and types[name] == "string"
        usable = {
            kind: count for kind, count in kinds.items() if name not in compared or not (is_text or kind == "string")
        }
        if usable:
            types[name] = _choose_type(usable)
    types |= draft.stated_types
    measures = {column: _cast_text(choice, types) for column, choice in draft.measures.items()}
    return replace(draft, types=types, measures=measures)


def _choose_type(votes: Mapping[str, int]) -> str:
    """Choose the type with most cells; of several types of exact numbers one that holds the values of all of them."""
    best = max(votes, key=lambda kind: (votes[kind], kind != "string"))
    exact = [kind for kind, cells in votes.items() if kind in _WHOLE_DIGITS or (_DECIMAL.fullmatch(kind) and cells)]
    digits = [_count_digits(kind) for kind in exact]
    if best not in exact or all(kind in _WHOLE_DIGITS for kind in exact):
        return best
    whole, fraction = (max(counts) for counts in zip(*digits, strict=True))
    return f"decimal({whole + fraction},{fraction})" if whole + fraction <= SUMMABLE_DIGITS else best


def _count_digits(kind: str) -> tuple[int, int]:
    """Count the digits before and after the point of a type of exact numbers."""
    decimal = _DECIMAL.fullmatch(kind)
    return (_WHOLE_DIGITS[kind], 0) if decimal is None else (int(decimal[1]) - int(decimal[2]), int(decimal[2]))


def _cast_text(choice: MeasureChoice, types: Mapping[str, str]) -> MeasureChoice:
    """Cast the field of a measure that was chosen for a number, if it is a text."""
    name = (choice.expression or "").strip("`")
    is_text = choice.type not in {None, "string"} and types.get(name) == "string"
    is_inexact = choice.cast == "bigint" and types.get(name) != "string"  # decimals are cast to doubles alone
    return replace(choice, type="string", cast="double") if is_text or is_inexact else choice


def _describe_measure(choice: MeasureChoice, choices: Sequence[MeasureChoice], equal: int, rows: int) -> Seen:
    others = [other.text for other in choices if other.text != choice.text]
    tie = f"; so does {', '.join(others[:3])}" if others else ""
    text = f"log: {equal:,} of {count_noun(rows, 'cell')}{tie}"
    return Seen(text=text, is_guess=bool(others) or equal < rows)


def _map_aggregates(draft: JobDraft, shape: QueryShape) -> dict[str, Aggregate]:
    """Map the columns of the table to the aggregates of the state by their places, if both are as many."""
    columns = list(draft.value_columns)
    return dict(zip(columns, shape.aggregates, strict=True)) if len(columns) == len(shape.aggregates) else {}


def rank_measures(match: Match, column: str, shape: QueryShape) -> list[MeasureChoice]:
    """Rank the measures that a column may have: those of the aggregate at its place first, then those of its name."""
    by_place = _map_aggregates(match.draft, shape)
    kinds = by_place[column].measures if column in by_place else ()
    kind = match.draft.value_columns.get(column, "")
    cast = "bigint" if kind in _WHOLE else "double" if kind in {"DOUBLE", "FLOAT"} else None
    choices = dict[tuple[object, ...], MeasureChoice]()
    for choice in sorted(match.measures[column], key=lambda choice: (choice.cast != cast, choice.cast is not None)):
        choices.setdefault((choice.kind, choice.expression, choice.condition, choice.has_zero), choice)
    return sorted(
        choices.values(),
        key=lambda choice: (
            choice.kind not in kinds,
            len(choice.condition or ""),
            " * " in (choice.expression or ""),
            not _is_named(choice, column),
        ),
    )


def _is_named(choice: MeasureChoice, column: str) -> bool:
    field, name = (choice.expression or "").strip("`").lower(), column.lower()
    named = re.findall("'([^']+)'", choice.condition or "")
    is_of_value = any(value.lower() in name for value in named)
    return bool(field) and (field in name or choice.kind.lower() in name or is_of_value)


def _choose_measure(column: str, choices: Sequence[MeasureChoice], choose: Choose) -> MeasureChoice:
    """Choose a measure: one of another field is asked for, unless its name is that of the column."""
    first = choices[0]
    alike = [choice for choice in choices if choice.kind == first.kind]
    expressions = dict.fromkeys(choice.text for choice in alike)
    if len(expressions) == 1 or _is_named(first, column) > _is_named(alike[1], column):
        return first
    question = Question(
        option=f"--measure {column}=MEASURE",
        part=f"the measure of the column `{column}`",
        choices=tuple(expressions)[:MAX_ASKED],
        reason="each of them reproduces as many of its cells",
    )
    text = choose(question)
    return next(choice for choice in alike if choice.text == text)


def describe_decisions(draft: JobDraft, matches: Sequence[Match], verification: DraftCheck, stated: Stated) -> JobDraft:
    """Add where the parts were seen that the log decides: those in which equally good hypotheses differ are guesses."""
    seen = dict(draft.seen)
    cells = f"log: {verification.equal_cells:,} of {count_noun(verification.cells, 'cell')}"
    for name in ("where", "event_time", "output_mode", "single_watermark", "record_id"):
        if getattr(stated, name, None) is not None:
            seen[name] = Seen(text=f"--{name.replace('_', '-')}; {cells}", is_guess=not verification.is_exact)
            continue
        own = str(getattr(draft, name))
        others = sorted({str(getattr(match.draft, name)) for match in matches} - {own})
        is_known = name in seen and not seen[name].is_guess and name != "where"
        if not is_known or others:
            tie = f"; so does {', '.join(others[:MAX_ASKED])}" if others else ""
            seen[name] = Seen(text=cells + tie, is_guess=bool(others) or not verification.is_exact)
    return replace(draft, seen=seen)
