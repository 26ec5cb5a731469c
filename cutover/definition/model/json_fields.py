"""Places in the JSON of a record: paths such as `payload.items[0].price`, and the tree of the paths of several columns.

A path is read from left to right: a name selects the field of an object, and an index the element of an array. A name
that contains other characters than letters, digits, `_`, `-`, `$` and `@` is written between backticks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NoReturn, TypeVar

from cutover.errors import DefinitionError

ParseForm = Literal["strict", "from_json", "avro", "csv", "text"]
JsonPath = tuple[str | int, ...]
"""Names of fields and indexes of elements, from the record's object to a value; the first one is a name."""

SchemaPath = tuple[str | None, ...]
"""Path with None instead of each index: all elements of an array have one schema."""

MAX_AVRO_BYTES = 16_777_216
"""Maximum `max_value_bytes` of a topic in Avro, and maximum length of a text or of bytes in its records."""

MAX_STEPS = 32
MAX_INDEX = 9_999
MAX_NAME_LENGTH = 1_000

_PLAIN = re.compile(r"[\w$@-]+")
_STEP = re.compile(r"\[(?P<index>[0-9]+)\]|(?P<dot>\.)?(?:`(?P<quoted>[^`]+)`|(?P<plain>[\w$@-]+))")
_NOT_IN_NAMES = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')
_EXAMPLE = "such as `payload.after.amount`, `items[0].price`; other characters in backticks, `` `Created Date` ``"

Leaf = TypeVar("Leaf")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonField:
    """Place of a column in the JSON of a record, and how its value is read; None: as the topic says."""

    path: str | None = None  # `payload.after.amount`, `items[0].price`; None: the top-level field of the column's name
    parse: ParseForm | None = None  # form of this column's value
    time_format: str | None = None  # of a timestamp column


@cache
def parse_path(text: str) -> JsonPath:
    """Parse a path.

    Raises:
        DefinitionError: The text is not a path; the message says where it ends to be one.
    """
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None or (step["index"] is None and (step["dot"] is None) != (not steps)):
            _reject(text, "a name, `.` and a name, or an index in brackets", text[position:])
        if step["index"] is None:
            steps.append(_check_name(text, step["quoted"] or step["plain"]))
        elif not steps or int(step["index"]) > MAX_INDEX:
            _reject(text, f"a name first, and indexes from 0 to {MAX_INDEX:,}", text[position:])
        else:
            steps.append(int(step["index"]))
        position = step.end()
    if not 1 <= len(steps) <= MAX_STEPS:
        _reject(text, f"1 to {MAX_STEPS} names and indexes", text)
    return tuple(steps)


def _check_name(text: str, name: str) -> str:
    if len(name) > MAX_NAME_LENGTH or _NOT_IN_NAMES.search(name):
        expected = f"names of at most {MAX_NAME_LENGTH:,} characters without quotes, backslashes and control characters"
        _reject(text, expected, name)
    return name


def _reject(text: str, expected: str, actual: str) -> NoReturn:
    shown = actual if len(actual) <= len(_EXAMPLE) else f"{actual[: len(_EXAMPLE)]}..."
    msg = f"Path `{text[:80]}`: expected {expected}, got {shown!r}.\nHint: {_EXAMPLE}."
    raise DefinitionError(msg)


def format_path(path: JsonPath) -> str:
    """Write a path as `parse_path` reads it."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (step if _PLAIN.fullmatch(step) else f"`{step}`")
    return text


def make_schema_path(path: JsonPath) -> SchemaPath:
    """Return the path in the schema, in which every element of an array is the same."""
    return tuple(step if isinstance(step, str) else None for step in path)


Tree = Mapping[str | None, Any]
"""Names (None: the elements of an array) of a place in the JSON, with the tree of each, or the leaf that is read."""


def build_tree(leaves: Sequence[tuple[JsonPath, Leaf]]) -> Tree:
    """Build the tree of some paths, in their order; of paths that differ in an index only, the first one counts."""
    root: dict[str | None, Any] = {}
    for path, leaf in leaves:
        node = root
        *parents, last = make_schema_path(path)
        for step in parents:
            node = node.setdefault(step, {})
        node.setdefault(last, leaf)
    return root


def list_parents(paths: Sequence[JsonPath]) -> Iterator[JsonPath]:
    """Yield the paths of all objects and arrays that some paths lead through, each once."""
    return iter(dict.fromkeys(path[:length] for path in paths for length in range(1, len(path))))
