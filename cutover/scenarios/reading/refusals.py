"""What pydantic found wrong in a scenario, as one message: place, expected, got, and what may have been meant."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from cutover.errors import DefinitionError
from cutover.scenarios.reading import texts
from cutover.scenarios.reading.texts import Duration, FiniteTime, KeyText, Time, Value

_KNOWN = {
    FiniteTime: texts.A_TIME,
    Time: texts.A_TIME,
    Duration: texts.A_DURATION,
    Value: texts.A_NUMBER,
    KeyText: texts.A_KEY,
    int: "a whole number",
    str: "a text",
    bool: "true or false",
}
_NOTHING = object()


def refusal(error: ValidationError, root: type[BaseModel]) -> DefinitionError:
    """Return the first thing that does not fit as an error: `points[3].event_time: expected ..., got ...`."""
    first = error.errors(include_url=False)[0]
    place = _place(root, first["loc"])
    got = _NOTHING if first["type"] == "missing" else first["input"]
    hint = ""
    expected = place.expected
    match first["type"]:
        case "extra_forbidden":
            known = [field.alias or name for name, field in place.model.model_fields.items()]
            msg = f"{_before(place.path)}unknown field `{_last(first)[:80]}`: expected one of {', '.join(known)}."
            return DefinitionError(msg + _suggest_name(_last(first), known))
        case "union_tag_invalid":
            expected = f"one of {first['ctx']['expected_tags'].replace(chr(39), '`')} as its `type`"
            got = first["ctx"]["tag"]
            hint = _suggest_name(str(got), [tag.strip().strip("'") for tag in first["ctx"]["expected_tags"].split(",")])
        case "literal_error":
            expected = f"one of {first['ctx']['expected'].replace(chr(39), '`').replace(' or ', ', ')}"
        case "expected":
            expected = first["ctx"]["expected"]
            hint = f"\nHint: {first['ctx']['hint']}" if first["ctx"]["hint"] else ""
            if first["ctx"]["got"]:
                return DefinitionError(f"{place.path}: expected {expected}, got {first['ctx']['got']}.{hint}")
    return DefinitionError(f"{place.path}: expected {expected}, got {format_value(got)}.{hint}")


def format_value(value: object) -> str:
    """Write a value as JSON for a message, cut to a length that fits."""
    if value is _NOTHING:
        return "nothing"
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="python", exclude_unset=True)
    text = value if isinstance(value, str) else json.dumps(value, default=_plain, ensure_ascii=True)
    return f"`{text[:80]}`"


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else str(value)


def _suggest_name(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"\nHint: did you mean `{close[0]}`?" if close else ""


def _before(path: str) -> str:
    return f"{path}: " if path else ""


def _last(error: ErrorDetails) -> str:
    return str(error["loc"][-1])


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    expected: str
    model: type[BaseModel]  # the innermost object


def _place(root: type[BaseModel], where: Sequence[int | str]) -> _Place:
    """Walk through the forms: which parts of a place are fields, which are positions, and which only name a `type`."""
    path, expected, model = "", "an object", root
    kind: Any = root
    for part in where:
        if isinstance(part, int):
            path, kind = f"{path}[{part}]", _item(kind)
            expected = _describe_expected(kind, expected)
            continue
        found = _field(kind, part)
        if found is None:
            kind = _choice(kind, part)
            model = kind if _is_model(kind) else model
            continue
        name, field = found
        model = kind
        path = f"{path}.{name}" if path else name
        kind = field.rebuild_annotation()
        expected = field.description or _describe_expected(kind, "a value")
        if _is_model(_unwrap_optional(kind)):
            kind = _unwrap_optional(kind)
    model = kind if _is_model(kind) and where and isinstance(where[-1], int) else model
    return _Place(path, expected, model)


def _field(kind: Any, part: str) -> tuple[str, FieldInfo] | None:
    fields: Mapping[str, FieldInfo] = kind.model_fields if _is_model(kind) else {}
    return next(((part, field) for name, field in fields.items() if part in {name, field.alias}), None)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _options(kind: Any) -> list[Any]:
    """Return what a union is of, without None; what is no union is the only option."""
    if get_origin(kind) is Annotated and kind not in _KNOWN:
        return _options(get_args(kind)[0])
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        return [one for part in get_args(kind) if part is not type(None) for one in _options(part)]
    return [kind]


def _unwrap_optional(kind: Any) -> Any:
    options = _options(kind)
    return options[0] if len(options) == 1 else kind


def _item(kind: Any) -> Any:
    lists = [one for one in _options(kind) if get_origin(one) is list]
    return _unwrap_optional(get_args(lists[0])[0]) if lists else kind


def _choice(kind: Any, part: str) -> Any:
    """Return the form of a `type`, or the only one that goes by a name of pydantic's own."""
    models = [one for one in _options(kind) if _is_model(one)]
    for model in models:
        tag = model.model_fields.get("type")
        if (tag is not None and part in get_args(tag.annotation)) or model.__name__ == part:
            return model
    return kind


def _describe_expected(kind: Any, otherwise: str) -> str:
    for part in (kind, *get_args(kind)):  # itself, or (of what may be left out) an option of a union
        metadata = get_args(part)[1:] if get_origin(part) is Annotated else ()
        said = next((one.description for one in metadata if isinstance(one, FieldInfo) and one.description), None)
        if said is not None:
            return said
    bare = _unwrap_optional(kind)
    for known, text in _KNOWN.items():
        if bare == known:
            return text
    return "an object" if _is_model(bare) else "a list" if get_origin(bare) is list else otherwise
