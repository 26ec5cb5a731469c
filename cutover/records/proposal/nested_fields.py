"""Names of columns for fields of JSON: of those with other names, and of those inside of objects."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutover.definition.model.topic import JsonPath, format_path, parse_path
from cutover.errors import DefinitionError
from cutover.records.csv_files import make_name, name_fields
from cutover.records.parsing.parsed_record import JsonObject

MAX_DEPTH = 5
"""Names in a path at most: what is deeper is left out as nested."""


def can_be_path(path: JsonPath) -> bool:
    """Return whether a definition can name a place in the JSON."""
    try:
        return all(path) and parse_path(format_path(path)) == path
    except DefinitionError:
        return False


def name_json_fields(texts: Sequence[str]) -> dict[str, str]:
    """Map each field of JSON whose name is not valid for a column, but can be in a path, to a valid name."""
    names = dict(zip(texts, name_fields(texts), strict=True))
    has_unique_name = Counter(text.lower() for text in texts)
    return {
        text: name
        for text, name in names.items()
        if text != name and has_unique_name[text.lower()] == 1 and can_be_path((text,))
    }


@dataclass(slots=True)
class NestedFields:
    """Columns for the fields inside of objects: `event_meta_tenant` for `event.meta.tenant`."""

    names: dict[JsonPath, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)  # names in lower case

    def flatten(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a record by the names of their columns."""
        return {self._name(path): value for path, value in _list_fields(record, ()) if can_be_path(path)}

    def find_conflicts(self) -> dict[str, str]:
        """Find the columns whose places a definition cannot have together with others, with the reason."""
        objects = {path[:length] for path in self.names for length in range(1, len(path))}
        mixed = {path: format_path(path) for path in self.names.keys() & objects}
        conflicts: dict[str, str] = {}
        spellings: dict[str, str] = {}  # place in lower case -> first spelling
        for path, name in self.names.items():
            starts = [path[:length] for length in range(1, len(path) + 1)]
            places = [format_path(start) for start in starts]
            others = [other for place in places if (other := spellings.setdefault(place.lower(), place)) != place]
            if others:
                conflicts[name] = f"its place differs from `{others[0]}` only by case"
            for start in starts:
                if start in mixed:
                    conflicts[name] = f"`{mixed[start]}` is an object in some records alone"
        return conflicts

    def _name(self, path: JsonPath) -> str:
        if path not in self.names:
            stem = make_name("_".join(map(str, path)), len(self.names) + 1)
            name, number = stem, 2
            while name.lower() in self._taken:
                name, number = f"{stem}_{number}", number + 1
            self.names[path] = name
            self._taken.add(name.lower())
        return self.names[path]


def _list_fields(members: Mapping[str, Any], path: JsonPath) -> Iterator[tuple[JsonPath, Any]]:
    for name, value in members.items():
        if isinstance(value, JsonObject) and len(path) + 1 < MAX_DEPTH:
            yield from _list_fields(dict(value.members), (*path, name))
        elif value is not None:
            yield (*path, name), value
