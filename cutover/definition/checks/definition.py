"""Validation of a whole definition; each message has file, field, expected and actual value, and a hint.

Values are checked against the type annotations of their fields before any of them is used.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from cutover.definition.checks import change, joins, measures
from cutover.definition.checks.contract import check_contract, check_schedule
from cutover.definition.checks.json_fields import check_json_fields
from cutover.definition.checks.measures import reject_field
from cutover.definition.checks.team_jobs import check_batch_job, check_spark_stream
from cutover.definition.compile import fingerprint
from cutover.definition.compile.compiled import SIDES, compile_pipeline
from cutover.definition.measures.kinds import MEASURE_NAMES, Measure
from cutover.definition.model.batch_job import find_batch_job, make_job_definition
from cutover.definition.model.joins import CONTROL_FOLDER, DIMENSIONS_FOLDER, Join, SelfJoin
from cutover.definition.model.pipeline import (
    Delivery,
    Pipeline,
    SameDefinition,
    Sql,
    compute_id_horizon,
    make_right_side,
)
from cutover.definition.model.policy import Audit, HazardKind, Policy
from cutover.definition.model.topic import Topic, check_name, list_column_types, list_fields
from cutover.definition.model.triggers import Accumulation, Trigger
from cutover.definition.windows.kinds import KINDS, Sessions
from cutover.definition.windows.window_fn import WindowFn
from cutover.errors import DefinitionError
from cutover.timestamps import MICROSECONDS, parse_duration

_MAX_SHOWN_LENGTH = 80  # characters of an invalid value in a message

_KEYWORDS = """
    all and any array as asc between both by case cast check collate column constraint create cross default desc
    distinct do else end except exists false fetch for foreign from full grant group having in inner intersect
    interval into is join leading left like limit natural not null offset on only or order outer primary references
    returning right select some table then to trailing true union unique user using values when where window with
"""
KEYWORDS = frozenset(_KEYWORDS.split())
"""Words that DuckDB or Spark reserves where a column is expected."""

TOPIC_NAME = re.compile(r"^[A-Za-z0-9._-]{1,249}\Z")
LARGEST_VALUE = 8_388_608
_MIN_DIVERGENCE = 1e-5  # about 370,000 blocks without a divergence are needed to show it


def check_field_types(part: object, prefix: str = "") -> None:
    """Check each field of a dataclass, and recursively those of the dataclasses in it.

    Args:
        part: Definition, or a part of one.
        prefix: Prefix of field names in messages.

    Raises:
        DefinitionError: The message names the first field whose value does not match its annotation.
    """
    hints = get_type_hints(type(part))
    for field in fields(part):  # type: ignore[arg-type]
        value, name = getattr(part, field.name), f"{prefix}{field.name}"
        if not _fits(value, hints[field.name]):
            reject_field(name, _describe_hint(hints[field.name]), repr(value)[:_MAX_SHOWN_LENGTH])
        for inner_name, inner in _list_parts(name, value):
            if is_dataclass(inner) and not isinstance(inner, type):
                check_field_types(inner, f"{inner_name}.")


def _list_parts(name: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f"{name}.{key}", inner) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{name}[{number}]", inner) for number, inner in enumerate(value)]
    return [(name, value)]


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value matches a type annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin in (Union, UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(item, arguments[0]) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, inner = arguments
        return isinstance(value, Mapping) and all(_fits(k, key) and _fits(v, inner) for k, v in value.items())
    return _is_instance(value, origin or hint)


def _is_instance(value: object, kind: object) -> bool:
    """Return whether a value is an instance of a class; an int is also a float, a bool is neither."""
    if kind is Any or not isinstance(kind, type):
        return True
    if isinstance(value, bool):
        return kind in (bool, object)
    return isinstance(value, (int, float) if kind is float else kind)


def _describe_hint(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _join_choices(arguments)
    if origin in (Union, UnionType):
        return _join_choices(list(map(_describe_hint, arguments)))
    if origin is tuple:
        return f"a tuple of {_describe_hint(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping of {_describe_hint(arguments[0])} to {_describe_hint(arguments[1])}"
    if is_dataclass(hint):
        return f"{hint.__name__}(...)"  # type: ignore[union-attr]  # a class
    words = {str: "text", int: "a whole number", float: "a number", NoneType: "None", bool: "True or False"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


def _join_choices(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]


def check_definition(pipeline: Pipeline) -> None:
    """Reject a definition that cannot be run.

    Raises:
        DefinitionError: The message names the first invalid field.
    """
    try:
        try:
            _check_fields(pipeline)
        except (TypeError, AttributeError, ValueError):
            check_field_types(pipeline)  # a value of a wrong type: name its field
            raise
        check_field_types(pipeline)
    except DefinitionError as error:
        prefix = f"{pipeline.file.name}: " if pipeline.file else ""
        message = str(error).removeprefix(f"Pipeline `{pipeline.name}`: ")
        msg = f"{prefix}pipeline `{str(pipeline.name)[:80]}`: {message}"
        raise DefinitionError(msg) from None


def _check_fields(pipeline: Pipeline) -> None:
    _check_names(pipeline)
    _check_source("source", pipeline.source)
    joins.check_lookups(pipeline.lookups, list_column_types(pipeline.source), KEYWORDS)
    _check_columns("derive", pipeline)
    _check_right(pipeline)
    _check_measure_kinds(pipeline)
    _check_window(pipeline)
    _check_ids(pipeline)
    _check_panes(pipeline)
    _check_expressions(pipeline)
    joins.check_joins(pipeline)
    _check_key(pipeline)
    _check_measures(pipeline)
    _check_delivery(pipeline)
    _check_limits(pipeline)
    _check_batch(pipeline)
    check_spark_stream(pipeline)
    check_batch_job(pipeline)
    _check_job_definition(pipeline)
    check_contract(pipeline)
    check_schedule(pipeline.schedule)
    change.check_change_note(pipeline)


def _check_job_definition(pipeline: Pipeline) -> None:
    """Reject rules of a batch job with which the definition would be rejected.

    Raises:
        DefinitionError: Names the field of the definition that they change.
    """
    job = find_batch_job(pipeline.batch)
    if job is not None and job.has_rules:
        try:
            check_definition(make_job_definition(pipeline, job))
        except DefinitionError as error:
            msg = f"batch ({job.describe_rules()}): expected a definition that is accepted with the job's rules: "
            raise DefinitionError(msg + error.text) from None


def _reject_unknown(field: str, name: str, known_names: Iterable[str]) -> NoReturn:
    names = list(known_names)
    close = get_close_matches(str(name), names, n=1)
    reject_field(field, f"a column of {', '.join(names)}", f"`{name}`", f"did you mean `{close[0]}`?" if close else "")


def _check_names(pipeline: Pipeline) -> None:
    check_name(pipeline.name, of="name")
    if pipeline.name.lower() in {DIMENSIONS_FOLDER, CONTROL_FOLDER}:
        reject_field("name", "a name other than those of the lake's own folders", f"`{pipeline.name}`")
    for field, names in (("derive", pipeline.derive), ("measures", pipeline.measures)):
        for name in names:
            check_name(name, of=field)
            _check_not_reserved(field, name)
    for name in pipeline.key:
        _check_not_reserved("key", name)


def _check_not_reserved(field: str, name: str) -> None:
    """Reject a reserved word of SQL as a name, since columns are written without quotes."""
    if name.lower() in KEYWORDS:
        reject_field(
            field,
            "a name that is not a reserved word of SQL",
            f"`{name}`",
            f'derive={{"{name}_": "`{name}`"}} renames it',
        )


def _check_right(pipeline: Pipeline) -> None:
    """Check the right topic of a join in the same way as the source."""
    if pipeline.join is not None and not isinstance(pipeline.join, Join | SelfJoin):
        reject_field("join", "Join(...) or SelfJoin(...)", repr(pipeline.join))
    if not isinstance(pipeline.join, Join):
        return
    if not isinstance(pipeline.join.right, Topic):
        reject_field("join.right", "Topic(...)", repr(pipeline.join.right))
    for field in ("between", "ids"):
        value = getattr(pipeline.join, field)
        if value is not None and (not isinstance(value, tuple | list) or len(value) != len(SIDES)):
            reject_field(f"join.{field}", "two texts", repr(value))
    for name in pipeline.join.derive:
        check_name(name, of="join.derive")
        _check_not_reserved("join.derive", name)
    _check_source("join.right", pipeline.join.right)
    _check_columns("join.derive", make_right_side(pipeline))


def _check_source(field_prefix: str, topic: Topic) -> None:
    check_json_fields(field_prefix, topic)
    column_types = list_column_types(topic)
    if not TOPIC_NAME.match(topic.name):
        reject_field(
            f"{field_prefix}.name", "a Kafka topic name (letters, digits, `.`, `_`, `-`)", repr(topic.name[:80])
        )
    for field, name in ((f"{field_prefix}.event_time", topic.event_time), (f"{field_prefix}.log_time", topic.log_time)):
        if name is None:
            continue
        if name not in column_types:
            _reject_unknown(field, name, column_types)
        if column_types[name] != "timestamp":
            reject_field(field, "a timestamp column", f"`{name}` of type {column_types[name]}")
    if topic.isolation not in {"read_committed", "read_uncommitted"}:
        reject_field(f"{field_prefix}.isolation", "read_committed or read_uncommitted", repr(topic.isolation))


def _check_columns(field: str, pipeline: Pipeline) -> None:
    schema = {name.lower() for name in compile_pipeline(pipeline).row_types}
    for name in pipeline.derive:
        if name.lower() in schema:
            reject_field(field, "a name that is not a column of the schema or of a dimension", f"`{name}`")
    _check_distinct(field, pipeline.derive)
    _check_distinct("measures", pipeline.measures)


def _check_distinct(field: str, names: Iterable[str]) -> None:
    lower_names: set[str] = set()
    for name in names:
        if name.lower() in lower_names:
            reject_field(field, "different names (names are compared without case)", f"`{name}` twice")
        lower_names.add(name.lower())


def _check_expressions(pipeline: Pipeline) -> None:
    compiled = compile_pipeline(pipeline)
    condition = compiled.where
    if condition is not None and condition.type != "boolean":
        reject_field("where", "a condition", f"{condition.type}: `{condition.text}`")
    _ = compiled.expressions  # compiling rejects invalid expressions


def _check_key(pipeline: Pipeline) -> None:
    column_types = compile_pipeline(pipeline).column_types
    if isinstance(pipeline.key, str) or not pipeline.key:
        reject_field("key", "a tuple of at least one column", repr(pipeline.key), 'write ("carrier",)')
    for name in pipeline.key:
        if name not in column_types:
            _reject_unknown("key", name, column_types)
        if column_types[name] == "double":
            reject_field(
                "key", "a type with exact equality", f"`{name}` of type double", "derive a key by CAST or floor"
            )
    _check_distinct("key", pipeline.key)


def _check_measures(pipeline: Pipeline) -> None:
    compiled = compile_pipeline(pipeline)
    for name, measure in pipeline.measures.items():
        measures.check_measure(f"measures.{name}", measure, compiled.measured_type(name))
    columns = [state.column for state in compiled.states]
    finished = [name for name in pipeline.measures if name not in columns]
    _check_distinct("measures and key, with the measures' state columns", [*pipeline.key, *columns, *finished])


def _check_measure_kinds(pipeline: Pipeline) -> None:
    if not pipeline.measures:
        reject_field("measures", "at least one, such as Count()", "none")
    for name, measure in pipeline.measures.items():
        if not isinstance(measure, Measure):
            reject_field(f"measures.{name}", f"a measure that merges: {MEASURE_NAMES}", repr(measure))


def _check_window(pipeline: Pipeline) -> None:
    """Reject an invalid window, and SQL batch paths over sessions."""
    if not isinstance(pipeline.window, WindowFn):
        reject_field("window", f"one of {', '.join(kind.example for kind in KINDS)}", repr(pipeline.window))
    if isinstance(pipeline.window, Sessions) and isinstance(pipeline.batch, Sql):
        hint = "a SQL query gets the records of some hours, and a session may extend beyond them."
        reject_field("batch", "SameDefinition() with Sessions(...)", repr(pipeline.batch), hint)


def _check_ids(pipeline: Pipeline) -> None:
    topic = pipeline.source
    if topic.record_id is None:
        if topic.id_horizon is not None:
            reject_field(
                "source.id_horizon", "a topic with a record_id", "none", "without ids there is no state to bound"
            )
        return
    fields_by_name = {field.name: field for field in list_fields(topic)}
    if topic.record_id not in fields_by_name:
        _reject_unknown("source.record_id", topic.record_id, fields_by_name)
    field = fields_by_name[topic.record_id]
    if field.nullable:
        hint = f"write `{field.name} {field.type} NOT NULL`: a record without an id is malformed(missing) then"
        reject_field("source.record_id", "a NOT NULL column", f"`{field.name} {field.type}`, which may be null", hint)
    if field.type == "double":
        reject_field("source.record_id", "a type with exact equality", f"`{field.name}` of type double")
    if isinstance(pipeline.window, Sessions):
        reject_field(
            "source.record_id",
            "a window other than Sessions(...)",
            repr(pipeline.window),
            "batch does not detect duplicates in sessions yet",
        )
    if pipeline.lookups:
        reject_field(
            "source.record_id", "a pipeline without lookups", "one with", "duplicates are not detected with lookups yet"
        )
    if compute_id_horizon(pipeline) == 0:
        reject_field("source.id_horizon", "a duration longer than zero", repr(topic.id_horizon))


def _check_panes(pipeline: Pipeline) -> None:
    trigger, accumulation = pipeline.trigger, pipeline.accumulation
    if trigger is not None and not isinstance(trigger, Trigger):
        reject_field("trigger", "a trigger such as Repeat(AtWatermark()), or None", repr(trigger))
    if not isinstance(accumulation, Accumulation):
        accumulation_names = ", ".join(f"Accumulation.{item.name}" for item in Accumulation)
        reject_field("accumulation", f"one of {accumulation_names}", repr(accumulation))
    _check_changelog(pipeline)


def _check_changelog(pipeline: Pipeline) -> None:
    topic = pipeline.changelog
    if topic is None:
        return
    if not TOPIC_NAME.match(topic) or topic in {pipeline.source.name, make_right_side(pipeline).source.name}:
        reject_field("changelog", "the name of a Kafka topic, other than the source's", repr(topic[:80]))
    if pipeline.trigger is None:
        reject_field("changelog", "a pipeline with a trigger", "none", "without one no panes are emitted")


def _check_delivery(pipeline: Pipeline) -> None:
    if pipeline.delivery not in get_args(Delivery):
        reject_field("delivery", " or ".join(get_args(Delivery)), repr(pipeline.delivery)[:80])
    if pipeline.delivery == "exactly_once":
        return
    for field, value in (("trigger", pipeline.trigger), ("source.record_id", pipeline.source.record_id)):
        if value is not None:
            hint = "state would include records of attempts that do not count"
            reject_field("delivery", f"exactly_once with `{field}`", pipeline.delivery, hint)


def _check_limits(pipeline: Pipeline) -> None:
    policy, value_bytes = pipeline.policy, pipeline.source.max_value_bytes
    for field, value, low, high in (
        ("max_rows_per_epoch", pipeline.max_rows_per_epoch, 1, 2**31 - 1),
        ("source.max_value_bytes", value_bytes, 1, LARGEST_VALUE),
        ("join.right.max_value_bytes", make_right_side(pipeline).source.max_value_bytes, 1, LARGEST_VALUE),
        ("policy.runs", policy.runs, 1, 1_000_000),
        ("policy.max_unexplained", policy.max_unexplained, 0, 2**31 - 1),
        ("policy.max_dimension_rows", policy.max_dimension_rows, 0, 2**31 - 1),
        ("policy.max_late_share", policy.max_late_share, 0, 1),
        ("policy.max_malformed_share", policy.max_malformed_share, 0, 1),
        ("policy.max_future_share", policy.max_future_share, 0, 1),
        ("policy.max_duplicate_share", policy.max_duplicate_share, 0, 1),
        ("policy.max_filtered_share", policy.max_filtered_share, 0, 1),
        ("policy.min_judged_share", policy.min_judged_share, 0.5, 1),
    ):
        if not low <= value <= high:
            reject_field(field, f"a number from {low} to {high}", repr(value))
    if policy.max_divergence is not None and not _MIN_DIVERGENCE <= policy.max_divergence <= 1:
        reject_field(
            "policy.max_divergence", f"None or a number from {_MIN_DIVERGENCE} to 1", repr(policy.max_divergence)
        )
    if policy.audit is not None:
        _check_audit(policy.audit)
    _check_times(policy)
    for hazard in policy.hazards:
        if hazard not in get_args(HazardKind):
            reject_field("policy.hazards", f"any of {', '.join(get_args(HazardKind))}", repr(hazard)[:80])


def _check_times(policy: Policy) -> None:
    for name in (
        "settles_after",
        "fresh_within",
        "hazards_within",
        "detected_within",
        "approved_within",
        "keep_unserved",
    ):
        micros = parse_duration(getattr(policy, name), of=f"policy.{name}")
        if not micros and (name == "fresh_within" or (name == "hazards_within" and policy.hazards)):
            reject_field(
                f"policy.{name}",
                "a duration longer than zero, since evidence always has an age",
                repr(getattr(policy, name)),
            )
    silence = policy.job_reads_within
    if silence is not None and not parse_duration(silence, of="policy.job_reads_within"):
        reject_field("policy.job_reads_within", "None or a duration longer than zero", repr(silence))
    if parse_duration(policy.keep_unserved, of="policy.keep_unserved") < MICROSECONDS["day"]:
        reject_field("policy.keep_unserved", "a day or more", repr(policy.keep_unserved))


def _check_audit(audit: Audit) -> None:
    if audit.faults not in {"cells", "windows"}:
        reject_field("policy.audit.faults", "cells or windows", repr(audit.faults)[:80])
    for field, value, low, high in (
        ("share", audit.share, 1e-6, 1),
        ("power", audit.power, 0.5, 0.999_999),
        ("within_days", audit.within_days, 1, 366),
    ):
        if not low <= value <= high:
            reject_field(f"policy.audit.{field}", f"a number from {low} to {high}", repr(value))


def _check_batch(pipeline: Pipeline) -> None:
    if not isinstance(pipeline.batch, (SameDefinition, Sql)):
        reject_field("batch", "SameDefinition(), Sql(file) or BatchJob(table=...)", repr(pipeline.batch)[:80])
    if isinstance(pipeline.batch, Sql) and pipeline.file is not None:
        fingerprint.batch_fingerprint(pipeline)
