"""Conversion of a pydantic validation error into one message: place, expected, got, and a suggestion."""

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

_DESCRIPTIONS = {
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
    """Return the first validation error as a message: `points[3].event_time: expected ..., got ...`."""
    detail = error.errors(include_url=False)[0]
    place = _place(root, detail["loc"])
    actual = _NOTHING if detail["type"] == "missing" else detail["input"]
    hint = ""
    expected = place.expected
    match detail["type"]:
        case "extra_forbidden":
            names = [field.alias or name for name, field in place.model.model_fields.items()]
            msg = f"{_before(place.path)}unknown field `{_last(detail)[:80]}`: expected one of {', '.join(names)}."
            return DefinitionError(msg + _suggest_name(_last(detail), names))
        case "union_tag_invalid":
            expected = f"one of {detail['ctx']['expected_tags'].replace(chr(39), '`')} as its `type`"
            actual = detail["ctx"]["tag"]
            hint = _suggest_name(
                str(actual), [tag.strip().strip("'") for tag in detail["ctx"]["expected_tags"].split(",")]
            )
        case "literal_error":
            expected = f"one of {detail['ctx']['expected'].replace(chr(39), '`').replace(' or ', ', ')}"
        case "expected":
            expected = detail["ctx"]["expected"]
            hint = f"\nHint: {detail['ctx']['hint']}" if detail["ctx"]["hint"] else ""
            if detail["ctx"]["got"]:
                return DefinitionError(f"{place.path}: expected {expected}, got {detail['ctx']['got']}.{hint}")
    return DefinitionError(f"{place.path}: expected {expected}, got {quote_value(actual)}.{hint}")


def quote_value(value: object) -> str:
    """Format a value as JSON for a message, truncated to 80 characters."""
    if value is _NOTHING:
        return "nothing"
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="python", exclude_unset=True)
    text = value if isinstance(value, str) else json.dumps(value, default=_plain, ensure_ascii=True)
    return f"`{text[:80]}`"


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else str(value)


def _suggest_name(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, names, n=1)
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


def _place(root: type[BaseModel], location: Sequence[int | str]) -> _Place:
    """Resolve a location in the forms; its parts are fields, positions, or the name of a `type`."""
    path, expected, model = "", "an object", root
    kind: Any = root
    for part in location:
        if isinstance(part, int):
            path, kind = f"{path}[{part}]", _item(kind)
            expected = _describe_expected(kind, expected)
            continue
        named_field = _field(kind, part)
        if named_field is None:
            kind = _choice(kind, part)
            model = kind if _is_model(kind) else model
            continue
        name, field = named_field
        model = kind
        path = f"{path}.{name}" if path else name
        kind = field.rebuild_annotation()
        expected = field.description or _describe_expected(kind, "a value")
        if _is_model(_unwrap_optional(kind)):
            kind = _unwrap_optional(kind)
    model = kind if _is_model(kind) and location and isinstance(location[-1], int) else model
    return _Place(path, expected, model)


def _field(kind: Any, part: str) -> tuple[str, FieldInfo] | None:
    fields: Mapping[str, FieldInfo] = kind.model_fields if _is_model(kind) else {}
    return next(((part, field) for name, field in fields.items() if part in {name, field.alias}), None)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _options(kind: Any) -> list[Any]:
    """Return the options of a union, without None; any other annotation is its only option."""
    if get_origin(kind) is Annotated and kind not in _DESCRIPTIONS:
        return _options(get_args(kind)[0])
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        return [option for part in get_args(kind) if part is not type(None) for option in _options(part)]
    return [kind]


def _unwrap_optional(kind: Any) -> Any:
    options = _options(kind)
    return options[0] if len(options) == 1 else kind


def _item(kind: Any) -> Any:
    lists = [option for option in _options(kind) if get_origin(option) is list]
    return _unwrap_optional(get_args(lists[0])[0]) if lists else kind


def _choice(kind: Any, part: str) -> Any:
    """Return the form of a `type`, or the form with the name that pydantic reports."""
    models = [option for option in _options(kind) if _is_model(option)]
    for model in models:
        tag = model.model_fields.get("type")
        if (tag is not None and part in get_args(tag.annotation)) or model.__name__ == part:
            return model
    return kind


def _describe_expected(kind: Any, otherwise: str) -> str:
    for part in (kind, *get_args(kind)):  # itself, or (of what may be left out) an option of a union
        metadata = get_args(part)[1:] if get_origin(part) is Annotated else ()
        description = next(
            (info.description for info in metadata if isinstance(info, FieldInfo) and info.description), None
        )
        if description is not None:
            return description
    bare = _unwrap_optional(kind)
    for annotation, text in _DESCRIPTIONS.items():
        if bare == annotation:
            return text
    return "an object" if _is_model(bare) else "a list" if get_origin(bare) is list else otherwise
