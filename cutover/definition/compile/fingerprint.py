"""Fingerprints of the parts of a definition that determine the result, the lateness, the panes and the batch path."""

import hashlib
import json
from dataclasses import astuple
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

from cutover.definition.measures.kinds import Measure
from cutover.definition.model.batch_job import find_batch_job
from cutover.definition.model.joins import Join, Lookup, SelfJoin
from cutover.definition.model.pipeline import Pipeline, SameDefinition, Sql, find_declared_horizon
from cutover.definition.model.protobuf import describe_protobuf
from cutover.definition.model.topic import CsvOptions, Topic, list_fields, normalize_type
from cutover.errors import DefinitionError

SEMANTICS_VERSION = 1
"""Incremented if the meaning of parsing, classes, windows or measures changes."""

TIME_ZONE = "UTC"


def result_fingerprint(pipeline: Pipeline) -> str:
    """Return 12 hex digits over everything that determines the result; equal fingerprints share tables."""
    return _digest(describe_result(pipeline))


def describe_result(pipeline: Pipeline) -> dict[str, Any]:
    """Return everything that determines the result, as plain data."""
    source = pipeline.source
    # Only if present, so that definitions without them keep their fingerprints.
    further: dict[str, Any] = (
        {"lookups": [_describe_lookup(*item) for item in pipeline.lookups.items()]} if pipeline.lookups else {}
    )
    further |= {} if pipeline.join is None else {"join": _describe_join(pipeline.join)}
    return {
        **further,
        **_describe_topic(source),
        "where": pipeline.where,
        "derive": sorted(pipeline.derive.items()),
        "key": list(pipeline.key),
        "window": pipeline.window.describe(),
        "measures": sorted(_describe_measure(name, measure) for name, measure in pipeline.measures.items()),
        "max_ahead": pipeline.lateness.max_ahead_micros,
        "time_zone": TIME_ZONE,
        "semantics": SEMANTICS_VERSION,
        **({} if source.record_id is None else {"record_id": [source.record_id, find_declared_horizon(source)]}),
    }


def _describe_lookup(name: str, lookup: Lookup) -> list[Any]:
    columns = [[column, normalize_type(kind)] for column, kind in lookup.columns.items()]
    return [name, lookup.table, sorted(lookup.on.items()), sorted(columns)]


def _describe_topic(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "schema": [[field.name, field.type, field.nullable] for field in list_fields(topic)],
        "event_time": topic.event_time,
        "time_format": topic.time_format,
        **({} if topic.parse == "strict" else {"parse": topic.parse}),
        **_describe_places(topic),
        **({"csv": astuple(topic.csv or CsvOptions())} if topic.parse == "csv" else {}),
        **({"protobuf": describe_protobuf(topic)} if topic.parse == "protobuf" else {}),
        "max_value_bytes": topic.max_value_bytes,
        "isolation": topic.isolation,
    }


def _describe_places(topic: Topic) -> dict[str, Any]:
    """Describe the columns of other places or forms than the topic's; empty if there are none."""
    places = {
        field.name: [list(field.path), field.parse, field.time_format if field.type == "timestamp" else None]
        for field in list_fields(topic)
        if field.path != (field.name,)
        or field.parse != topic.parse
        or (field.type == "timestamp" and field.time_format != topic.time_format)
    }
    return {"fields": places} if places else {}


def _describe_join(join: Join | SelfJoin) -> dict[str, Any]:
    shared: dict[str, Any] = {"how": join.how, "prefix": join.prefix}
    if isinstance(join, SelfJoin):
        return {**shared, "on": list(join.on), "left": join.left, "right": join.right}
    right = {**_describe_topic(join.right), "where": join.where, "derive": sorted(join.derive.items())}
    if join.bounds is not None:  # only then, so that definitions without an interval keep their fingerprints
        shared |= {"between": list(join.bounds), "ids": list(join.ids or ())}
    return {**shared, "on": sorted(join.on.items()), **right}


def _describe_measure(name: str, measure: Measure) -> list[Any]:
    further = [[field.name, getattr(measure, field.name)] for field in fields_of(measure) if field.name != "expression"]
    return [name, type(measure).__name__, measure.expression, *further]


def lateness_fingerprint(pipeline: Pipeline) -> str:
    """Return 12 hex digits over the settings that decide which rows are late; they do not affect the true result."""
    return _digest(_describe_lateness(pipeline))


def describe_version(pipeline: Pipeline) -> dict[str, Any]:
    """Return everything that determines a version of the stream: the result and the lateness."""
    return {
        **describe_result(pipeline),
        **{f"lateness.{name}": value for name, value in _describe_lateness(pipeline).items()},
    }


def _describe_lateness(pipeline: Pipeline) -> dict[str, int]:
    lateness = pipeline.lateness
    stream = pipeline.stream
    # Only if followed, so that other definitions keep their fingerprints. A version never mixes two ways to judge.
    followed = {} if stream is None else {"job": 1 + stream.single_watermark + 2 * (stream.output_mode == "complete")}
    return {
        **followed,
        "out_of_orderness": lateness.out_of_orderness_micros,
        "allowed": lateness.allowed_micros,
        "idle_after": lateness.idle_after_micros,
    }


def panes_fingerprint(pipeline: Pipeline) -> str | None:
    """Return 12 hex digits over trigger and accumulation, which affect no result; None without panes."""
    if pipeline.trigger is None:
        return None
    return _digest({"trigger": repr(pipeline.trigger), "accumulation": pipeline.accumulation.value})


def batch_fingerprint(pipeline: Pipeline) -> str:
    """Return `same`, or 12 hex digits of the SQL file's content.

    Raises:
        DefinitionError: The file cannot be read.
    """
    if isinstance(pipeline.batch, SameDefinition):
        return "same"
    return hashlib.sha256(batch_sql(pipeline).encode()).hexdigest()[:12]


def job_fingerprints(pipeline: Pipeline) -> dict[str, str]:
    """Return by side, `streaming` and `batch`, 12 hex digits over where a team's own job writes which columns.

    They affect no result of ours, so that another table of a job leaves ours as they are; agreement with a table is
    evidence for this table alone.
    """
    stream, batch = pipeline.stream, find_batch_job(pipeline.batch)
    jobs: dict[str, str] = {}
    if stream is not None:
        options = (stream.row_per_record, stream.latest_by)
        places = [repr(stream.table), stream.checkpoint, options, sorted(stream.columns.items())]
        jobs["streaming"] = _digest({"job": places})
    if batch is not None:
        rules = {"rules": [batch.where, list(batch.once_by)]} if batch.has_rules else {}
        jobs["batch"] = _digest({"job": [repr(batch.table), sorted(batch.columns.items())], **rules})
    return jobs


def batch_sql(pipeline: Pipeline) -> str:
    """Return the text of the batch path's SQL file.

    Raises:
        DefinitionError: The batch path is this definition, or the file cannot be read.
    """
    if not isinstance(pipeline.batch, Sql):
        msg = f"Pipeline `{pipeline.name}`: batch: expected `Sql(file)`, got {pipeline.batch}."
        raise DefinitionError(msg)
    base = (pipeline.file or Path("x")).resolve().parent
    path = (base / pipeline.batch.file).resolve()
    if not path.is_relative_to(base):
        msg = f"Pipeline `{pipeline.name}`: batch: expected a file inside the definition's folder, "
        msg += f"got {pipeline.batch.file}."
        raise DefinitionError(msg)
    if not path.is_file():
        msg = f"Pipeline `{pipeline.name}`: batch: expected a file that exists, got {pipeline.batch.file}."
        msg += "\nHint: the path is relative to the definition's folder."
        raise DefinitionError(msg)
    return path.read_text(encoding="utf-8")


def _digest(value: dict[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
