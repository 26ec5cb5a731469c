"""Records in Avro as a sample of a topic has them: columns by the schemas of their writers, and values as in JSON."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from cutover.definition.model.json_fields import JsonField, JsonPath, format_path
from cutover.definition.model.topic import Topic, list_fields
from cutover.log.kafka import RawRecord
from cutover.records.parsing.avro_layout import list_readable_columns
from cutover.records.parsing.writer_schemas import HEAD_BYTES, find_schema
from cutover.records.reference.parse import parse_record
from cutover.records.reference.values import JsonNumber
from cutover.timestamps import format_micros


def is_framed(record: RawRecord) -> bool:
    """Return whether a value begins as those of the clients of a schema registry do."""
    return record.value is not None and record.value[:1] == b"\0" and len(record.value) >= HEAD_BYTES


def make_avro_topic(records: Sequence[RawRecord]) -> tuple[Topic, Mapping[str, JsonPath]]:
    """Make a topic with a column for each field of the schemas of some records; return the paths of its columns.

    Raises:
        DefinitionError: The settings name no registry.
        LogError: The registry does not respond.
    """
    heads = sorted({(record.value or b"")[:HEAD_BYTES] for record in records})
    types: dict[JsonPath, str] = {}
    for head in heads:  # the newest schema has the largest id
        types |= list_readable_columns(find_schema(head))
    paths = {f"c{number}": path for number, path in enumerate(types)}
    topic = Topic(
        name="sample",
        schema=", ".join(f"{name} {types[path]}" for name, path in paths.items()),
        event_time=next(iter(paths), "c0"),
        parse="avro",
        fields={name: JsonField(path=format_path(path)) for name, path in paths.items()},
    )
    return topic, paths


def list_avro_values(record: RawRecord, topic: Topic) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a record with their values as JSON has them; none of a record that cannot be read."""
    parsed = parse_record(record.value, topic)
    types = {field.name: field.type for field in list_fields(topic)}
    for name, value in parsed.values.items():
        yield name, _to_json(value, types[name])


def _to_json(value: Any, kind: str) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if kind == "timestamp":
        return format_micros(value)
    if isinstance(value, date):
        return value.isoformat()
    return JsonNumber(str(value) if isinstance(value, int | Decimal) else repr(value))
