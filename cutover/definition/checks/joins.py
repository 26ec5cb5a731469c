"""Checks of joins and lookups: conditions, column names and types, key and measures; no dimension is read."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import get_args

from cutover.definition.checks.measures import reject_field
from cutover.definition.compile.compiled import compile_pipeline
from cutover.definition.measures.kinds import Avg, Count, Max, Min, Sum
from cutover.definition.model.joins import How, Join, Lookup, SelfJoin
from cutover.definition.model.pipeline import Pipeline, SameDefinition, make_right_side
from cutover.definition.model.topic import IDENTIFIER, RESERVED_PREFIX, check_name, normalize_type, parse_decimal_type
from cutover.definition.windows.kinds import SlidingWindows
from cutover.errors import DefinitionError

MEASURES = (Count, Sum, Min, Max, Avg)
"""Measures that can be computed from distinct values and their weights; exact, except for doubles."""

SUMMABLE_DIGITS = 19
MAX_NAME_LENGTH = 63


def check_joins(pipeline: Pipeline) -> None:
    """Reject an invalid join; a pipeline without one passes.

    Raises:
        DefinitionError: The message names the first invalid field.
    """
    join = pipeline.join
    if join is None:
        return
    if join.how not in get_args(How):
        reject_field("join.how", "inner, left or full", repr(join.how))
    _check_sides(pipeline, join)
    _check_prefix(pipeline)
    _check_on(pipeline, join.on if isinstance(join, Join) else {name: name for name in join.on})
    if isinstance(join, Join):
        _check_interval(pipeline, join)
    _check_measures(pipeline)
    if not isinstance(pipeline.batch, SameDefinition):
        reject_field("batch", "SameDefinition() with a join", repr(pipeline.batch), "rows of a join have two sides")
    topics = (pipeline.source, make_right_side(pipeline).source)
    if any(topic.record_id is not None for topic in topics):
        reject_field("source.record_id", "none with a join", "one", "duplicates are not detected on two sides yet")
    if pipeline.lookups:
        reject_field("lookups", "none with a join", ", ".join(pipeline.lookups), "join a topic that has the columns")


def _check_sides(pipeline: Pipeline, join: Join | SelfJoin) -> None:
    if isinstance(join, SelfJoin):
        for name, condition in compile_pipeline(pipeline).side_conditions.items():
            if condition.type != "boolean":
                reject_field(name, "a condition", f"{condition.type}: `{condition.text}`")
        return
    if join.right.name == pipeline.source.name:
        reject_field(
            "join.right.name", "a topic other than the source's", f"`{join.right.name}`", "SelfJoin joins one topic"
        )
    if join.right.isolation != pipeline.source.isolation:
        reject_field("join.right.isolation", f"that of the source, {pipeline.source.isolation}", join.right.isolation)
    right = compile_pipeline(pipeline).right
    _ = right.expressions  # compiling rejects invalid expressions
    right_condition = right.where
    if right_condition is not None and right_condition.type != "boolean":
        reject_field("join.where", "a condition", f"{right_condition.type}: `{right_condition.text}`")


def _check_interval(pipeline: Pipeline, join: Join) -> None:
    """Reject an interval join whose pairs could not be assigned to windows, or identified."""
    if join.between is None:
        if join.ids is not None:
            reject_field("join.ids", "none without `join.between`", repr(join.ids), "the rows of a window are paired")
        return
    if join.bounds is None or join.bounds[0] > join.bounds[1]:
        reject_field("join.between", "the lower bound, then the upper one", repr(join.between))
    if join.how != "inner":
        reason = "rows without a partner are not repeated yet"
        reject_field("join.how", "inner with `join.between`", join.how, reason)
    window, longest = pipeline.window, max(map(abs, join.bounds))
    if not isinstance(window, SlidingWindows) or window.size != window.every + longest:
        hint = "a pair belongs to the window of its earlier row"
        reject_field("window", "Fixed(...) with `join.between`", repr(window)[:80], hint)
    if pipeline.trigger is not None:
        reject_field("trigger", "none with `join.between`", "one", "a pair belongs to one of the windows of its rows")
    if pipeline.source.event_time in join.on or join.right.event_time in join.on.values():
        reject_field("join.on", "columns other than the event times", "an event time", "`between` compares these")
    for side, name, types in zip(
        ("left", "right"),
        join.ids or (),
        (compile_pipeline(pipeline).own_types, compile_pipeline(pipeline).right.own_types),
        strict=False,
    ):
        _check_column(f"join.ids, {side} side", name, types)
        if types[name] == "double":
            reject_field("join.ids", "types with exact equality", f"`{name}` of type double")


def _check_prefix(pipeline: Pipeline) -> None:
    prefix = pipeline.join.prefix if pipeline.join is not None else ""
    if not IDENTIFIER.match(prefix) or prefix.startswith(RESERVED_PREFIX):
        reject_field("join.prefix", "letters, digits and `_`, not starting with a digit or `__`", repr(prefix))
    compiled = compile_pipeline(pipeline)
    left_names = {name.lower() for name in compiled.own_types}
    for name in compiled.right_types:
        if name.lower() in left_names:
            hint = "choose another prefix, or rename the column by `derive`"
            reject_field(
                "join.prefix", "names on the right that differ from those on the left", f"`{name}` on both sides", hint
            )
        if len(name) > MAX_NAME_LENGTH:
            reject_field("join.prefix", f"names of at most {MAX_NAME_LENGTH} characters", f"`{name}`")


def _check_on(pipeline: Pipeline, on: Mapping[str, str]) -> None:
    if isinstance(getattr(pipeline.join, "on", None), str) or not on:
        reject_field("join.on", "at least one column that both sides share", repr(getattr(pipeline.join, "on", None)))
    compiled = compile_pipeline(pipeline)
    left_types, right_types = compiled.own_types, compiled.right.own_types
    for left_column, right_column in on.items():
        _check_column("join.on, left side", left_column, left_types)
        _check_column("join.on, right side", right_column, right_types)
        if left_types[left_column] != right_types[right_column]:
            left_text = f"`{left_column}` of type {left_types[left_column]}"
            actual = f"{left_text} and `{right_column}` of type {right_types[right_column]}"
            reject_field("join.on", "columns of one type", actual, "CAST one of them in `derive`")
    if not isinstance(pipeline.key, str) and sorted(pipeline.key) != sorted(on):
        expected = f"the columns of `join.on`: ({', '.join(repr(name) for name in on)})"
        reject_field(
            "key", expected, repr(pipeline.key), "both rows of a pair have the same key; derive a column to join on"
        )


def _check_column(field: str, name: str, known_names: Iterable[str]) -> None:
    names = list(known_names)
    if name not in names:
        close = get_close_matches(str(name), names, n=1)
        reject_field(
            field, f"a column of {', '.join(names)}", f"`{name}`", f"did you mean `{close[0]}`?" if close else ""
        )


def _check_measures(pipeline: Pipeline) -> None:
    for name, measure in pipeline.measures.items():
        kind = compile_pipeline(pipeline).measured_type(name)
        if not isinstance(measure, MEASURES):
            allowed = ", ".join(item.__name__ for item in MEASURES)
            reject_field(f"measures.{name}", f"one of {allowed} over the pairs of a join", type(measure).__name__)
        digits = parse_decimal_type(kind or "bigint")
        if isinstance(measure, Sum | Avg) and digits is not None and digits[0] > SUMMABLE_DIGITS:
            hint = "a sum over all pairs could overflow; CAST it"
            reject_field(
                f"measures.{name}", f"a decimal of at most {SUMMABLE_DIGITS} digits with a join", str(kind), hint
            )


def check_lookups(lookups: Mapping[str, Lookup], schema: Mapping[str, str], keywords: Collection[str]) -> None:
    """Reject lookups that cannot be joined.

    Args:
        lookups: Lookups in the order of their joins.
        schema: Name to type of the topic's columns.
        keywords: Reserved words of SQL, in lower case.

    Raises:
        DefinitionError: The message names the first invalid field.
    """
    column_types = dict(schema)
    for name, lookup in lookups.items():
        field = f"lookups.{name}"
        check_name(name, of="lookups")
        if not isinstance(lookup, Lookup):
            reject_field(field, "Lookup(table=..., on={...}, columns={...})", repr(lookup)[:80])
        _check_table(field, lookup)
        _check_lookup_on(field, lookup, column_types)
        column_types |= _check_columns(field, lookup, column_types, keywords)


def _check_table(field: str, lookup: Lookup) -> None:
    if lookup.is_named:
        check_name(lookup.table, of=f"{field}.table")
    elif "://" not in lookup.table and not lookup.table.startswith("/"):
        hint = "a plain name means `<lake>/dimensions/<name>`"
        reject_field(f"{field}.table", "a name, an absolute path or a URI", f"`{lookup.table[:80]}`", hint)


def _check_lookup_on(field: str, lookup: Lookup, column_types: Mapping[str, str]) -> None:
    if not lookup.on:
        reject_field(f"{field}.on", "at least one column of the row, such as {'ad_id': 'ad_id'}", "none")
    for column, right_column in lookup.on.items():
        if column not in column_types:
            close = get_close_matches(str(column), list(column_types), n=1)
            hint = f"did you mean `{close[0]}`?" if close else "derived columns are computed after lookups"
            reject_field(f"{field}.on", f"a column of {', '.join(column_types)}", f"`{column}`", hint)
        if column_types[column] == "double":
            reject_field(f"{field}.on", "a type with exact equality", f"`{column}` of type double")
        check_name(right_column, of=f"{field}.on")
    if len(set(lookup.on.values())) < len(lookup.on):
        reject_field(f"{field}.on", "each column of the dimension once", ", ".join(lookup.on.values()))


def _check_columns(
    field: str, lookup: Lookup, column_types: Mapping[str, str], keywords: Collection[str]
) -> dict[str, str]:
    """Check the joined columns, and map each to its type."""
    if not lookup.columns:
        reject_field(f"{field}.columns", "at least one column of the dimension with its type", "none")
    lower_names = {name.lower() for name in column_types}
    for name in lookup.columns:
        check_name(name, of=f"{field}.columns")
        if name.lower() in lower_names:
            hint = "give it another name in the dimension"
            reject_field(f"{field}.columns", "a name that no column of the row has yet", f"`{name}`", hint)
        if name.lower() in keywords:
            reject_field(f"{field}.columns", "a name that is not a reserved word of SQL", f"`{name}`")
        lower_names.add(name.lower())
    return {name: _normalize_type(f"{field}.columns.{name}", kind) for name, kind in lookup.columns.items()}


def _normalize_type(field: str, kind: str) -> str:
    try:
        return normalize_type(kind)
    except DefinitionError as error:
        msg = f"{field}: {error}"
        raise DefinitionError(msg) from None
