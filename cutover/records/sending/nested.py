"""Columns of a CSV file for a topic whose columns are at nested places of the JSON."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from cutover.definition.model.json_fields import JsonPath
from cutover.definition.model.topic import Field, Topic, list_fields
from cutover.records.record_files import encode_value
from cutover.records.reference.values import JsonObject


def match_columns(header: Sequence[str], names: Sequence[str], topic: Topic) -> list[Field | None]:
    """Match the columns of a header with those of a topic: by the path in the header, else by the valid name.

    Args:
        header: Texts of the header.
        names: A valid name of each.
        topic: The topic.
    """
    by_label = {column.label: column for column in list_fields(topic)}
    return [by_label.get(text) or by_label.get(name) for text, name in zip(header, names, strict=True)]


def nest_values(values: Sequence[tuple[JsonPath, Any]]) -> JsonObject:
    """Make an object with values at their paths; elements of arrays that no path leads to are null."""
    root: dict[str, Any] = {}
    for path, value in values:
        node: Any = root
        for step, following in pairwise(path):
            inner: Any = [] if isinstance(following, int) else {}
            if isinstance(step, int):
                node.extend([None] * (step + 1 - len(node)))
                node[step] = inner if node[step] is None else node[step]
                node = node[step]
            else:
                node = node.setdefault(step, inner)
        last = path[-1]
        if isinstance(last, int):
            node.extend([None] * (last + 1 - len(node)))
        node[last] = value
    return _make_object(root)


def _make_object(node: dict[str, Any]) -> JsonObject:
    return JsonObject(tuple((name, _make_json(inner)) for name, inner in node.items()))


def _make_json(node: Any) -> Any:
    if isinstance(node, list):
        return list(map(_make_json, node))
    return _make_object(node) if isinstance(node, dict) else node


def encode_parsed_json(value: Any) -> str:
    """Encode a parsed value as JSON; numbers keep their text."""
    if isinstance(value, JsonObject):
        return (
            "{" + ",".join([f"{encode_value(name)}:{encode_parsed_json(inner)}" for name, inner in value.members]) + "}"
        )
    if isinstance(value, list):
        return f"[{','.join(map(encode_parsed_json, value))}]"
    return encode_value(value)
