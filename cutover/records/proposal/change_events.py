"""Change events of Debezium: records whose row is under `after`, with the kind and the time of the change beside it."""

from collections.abc import Iterable, Mapping
from typing import Any

from cutover.definition.model.topic import JsonPath
from cutover.records.parsing.parsed_record import JsonObject

CHANGE_TIME = "changed_at"
"""Column with the time of a change, which is when it happened: the times in the row are those of the row."""

_NAMES = {"op": "op", "ts_ms": CHANGE_TIME}
_ENVELOPE = frozenset({"before", "after", "op"})


def find_envelope(record: Mapping[str, Any]) -> JsonPath | None:
    """Find the path of a change event in a record: empty, or `payload`; None if it is none."""
    if record.keys() >= _ENVELOPE and any(isinstance(record[name], JsonObject) for name in ("before", "after")):
        return ()
    payload = record.get("payload")
    if isinstance(payload, JsonObject) and find_envelope(dict(payload.members)) == ():
        return ("payload",)
    return None


def flatten_event(record: Mapping[str, Any], envelope: JsonPath) -> dict[JsonPath, Any]:
    """Return the values of the row after the change, and the kind and the time of the change, by their paths."""
    event = dict(record)
    for step in envelope:
        event = _list_members(event.get(str(step)))
    row = {(*envelope, "after", name): value for name, value in _list_members(event.get("after")).items()}
    source = _list_members(event.get("source"))
    time_path: JsonPath = ("source", "ts_ms") if "ts_ms" in source else ("ts_ms",)
    moment = source.get("ts_ms") if "ts_ms" in source else event.get("ts_ms")
    return row | {(*envelope, "op"): event.get("op"), (*envelope, *time_path): moment}


def name_event_fields(paths: Iterable[JsonPath]) -> list[str]:
    """Name the fields of change events: `op`, `changed_at`, and the row's columns, `op_2` if one is called `op`."""
    return [_name_column(str(path[-1])) if "after" in path[:2] else _NAMES[str(path[-1])] for path in paths]


def _name_column(name: str) -> str:
    return f"{name}_2" if name.lower() in _NAMES.values() else name


def _list_members(value: Any) -> dict[str, Any]:
    return dict(value.members) if isinstance(value, JsonObject) else {}
