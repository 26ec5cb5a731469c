"""Strict parser of scenario files with one scenario or several cases. docs/scenarios.md describes the format.

A file is UTF-8 with one JSON object, no duplicate fields, and exact numbers. A validation error of pydantic becomes one
message: place, expected, got, and a suggestion.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from cutover.errors import DefinitionError
from cutover.scenarios.reading import texts
from cutover.scenarios.reading.forms import FOR_PEOPLE, SHARED, Form, PointForm, ScenarioForm
from cutover.scenarios.reading.setting import Scenario, scenario_of
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


LARGEST_BYTES = 500_000_000
_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}

JsonObject = Mapping[str, Any]


def read_scenario_document(path: Path) -> Mapping[str, Any]:
    """Return the object in a JSON file; numbers with a point are decimals.

    Raises:
        DefinitionError: The file cannot be read, is empty, too large, of another encoding, or holds anything but one
            JSON object without doubled fields.
    """
    text = _text(_bytes(path), path.name)
    if not text.strip():
        _reject(path.name, "one JSON object", "an empty file")
    try:
        document = json.loads(text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_make_object)
    except (ValueError, RecursionError) as error:
        actual = "objects nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        _reject(path.name, "JSON", actual)
    if not isinstance(document, dict):
        _reject(path.name, "one JSON object", f"a {type(document).__name__}")
    return document


def _bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            _reject(path.name, "a file", "a folder" if path.is_dir() else "something else")
        if path.stat().st_size > LARGEST_BYTES:
            _reject(path.name, f"at most {LARGEST_BYTES} bytes, which are read at once", str(path.stat().st_size))
        return path.read_bytes()
    except OSError as error:
        _reject(path.name, "a file that can be read", str(error.strerror))


def _text(content: bytes, name: str) -> str:
    encoding = next((encoding for mark, encoding in _MARKS.items() if content.startswith(mark)), None)
    if encoding is not None:
        _reject(name, "text in UTF-8", encoding, f"`iconv -f {encoding} -t UTF-8` converts it.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        actual = f"the byte 0x{content[error.start]:02x}, line {line}"
        _reject(name, "text in UTF-8", actual, "`iconv -f ISO-8859-1 -t UTF-8`, or from the encoding of the file.")


def _reject(name: str, expected: str, actual: str, hint: str = "") -> NoReturn:
    msg = f"Scenario `{name}`: expected {expected}, got {actual}." + (f"\nHint: {hint}" if hint else "")
    raise DefinitionError(msg) from None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"the field `{twice[:80]}` twice in one object"
        raise ValueError(msg)
    return fields


def _no_constant(text: str) -> NoReturn:
    msg = f"{text}, which is not JSON"
    raise ValueError(msg)


class _Points(Form):
    """Rows that all cases of a file share, validated once."""

    points: list[PointForm] = Field(description="a list of rows")


def parse_file(path: Path, *, case: int | None = None) -> Scenario:
    """Read a file with one scenario, or one case of a file with several.

    Raises:
        DefinitionError: The file is invalid; reports file, case and place of the first error.
    """
    cases = parse_cases(path, case=case)
    if len(cases) > 1:
        numbers = ", ".join(str(case.case) for case in cases)
        msg = f"Scenario `{path.name}`: expected --case, since it has {len(cases)} cases ({numbers}), got none."
        raise DefinitionError(msg)
    return cases[0]


def parse_cases(path: Path, *, case: int | None = None) -> Sequence[Scenario]:
    """Return all scenarios of a file, in order, or the one with a number. All cases must be valid.

    Raises:
        DefinitionError: As `parse_file`.
    """
    document = read_scenario_document(path)
    try:
        return _cases(document, path.stem, case) if "cases" in document else [_parse_single(document, path.stem, case)]
    except DefinitionError as error:
        msg = f"Scenario `{path.name}`: {error}"
        raise DefinitionError(msg) from None


def parse_scenario(document: JsonObject, *, default_title: str) -> Scenario:
    """Validate a JSON object and convert it into a scenario.

    Raises:
        DefinitionError: The object is invalid; reports the place of the first error.
    """
    return scenario_of(_form(document), default_title=default_title)


def _parse_single(document: JsonObject, title: str, number: int | None) -> Scenario:
    scenario = parse_scenario(document, default_title=title)
    if number is not None and scenario.case != number:
        msg = f"--case: expected {scenario.case or 'none'}, since the file has no other, got `{number}`."
        raise DefinitionError(msg)
    return scenario


def _cases(document: JsonObject, title: str, number: int | None) -> Sequence[Scenario]:
    cases = _objects(document["cases"])
    shared = {name: value for name, value in document.items() if name != "cases"}
    for name in shared:
        if name not in SHARED:
            msg = f"unknown field `{name[:80]}` next to `cases`: expected one of {', '.join(SHARED)}."
            raise DefinitionError(msg)
    if "points" in shared:
        shared["points"] = _points(shared["points"])
    numbers = _numbers(cases)
    forms = [_case_form(case, shared, case_number) for case, case_number in zip(cases, numbers, strict=True)]
    if number is not None and number not in numbers:
        msg = f"--case: expected one of {len(cases)} cases ({', '.join(map(str, numbers))}), got `{number}`."
        raise DefinitionError(msg)
    selected = [form for form in forms if number in {None, form.case}]
    return [_of_case(form, f"{shared.get('title', title)}, case {form.case}") for form in selected]


def _objects(value: object) -> Sequence[JsonObject]:
    if not isinstance(value, list) or not value:
        msg = f"cases: expected a list of at least one case, got {quote_value(value)}."
        raise DefinitionError(msg)
    for at, case in enumerate(value):
        if not isinstance(case, dict):
            msg = f"cases[{at}]: expected an object, got {quote_value(case)}."
            raise DefinitionError(msg)
    return value


def _numbers(cases: Sequence[JsonObject]) -> Sequence[int]:
    positions: dict[int, int] = {}
    for at, case in enumerate(cases):
        number = case.get("case")
        if not isinstance(number, int) or isinstance(number, bool):
            actual = "nothing" if number is None else quote_value(number)
            msg = f"cases[{at}].case: expected a whole number, by which `--case` finds it, got {actual}."
            raise DefinitionError(msg)
        if number in positions:
            msg = f"cases[{at}].case: expected a unique number, got `{number}`, which cases[{positions[number]}] has."
            raise DefinitionError(msg)
        positions[number] = at
    return list(positions)


def _case_form(case: JsonObject, shared: JsonObject, number: int) -> ScenarioForm:
    twice = next((name for name in case if name in shared and name not in FOR_PEOPLE), None)
    if twice is not None:
        msg = f"case {number}: {twice}: expected either for all cases or in this one, got both."
        raise DefinitionError(msg)
    try:
        return _form({**shared, **case})
    except DefinitionError as error:
        msg = f"case {number}: {error}"
        raise DefinitionError(msg) from None


def _of_case(form: ScenarioForm, title: str) -> Scenario:
    try:
        return scenario_of(form, default_title=title)
    except DefinitionError as error:
        msg = f"case {form.case}: {error}"
        raise DefinitionError(msg) from None


def _points(value: object) -> list[PointForm]:
    try:
        return _Points.model_validate({"points": value}).points
    except ValidationError as error:
        raise refusal(error, _Points) from None


def _form(document: JsonObject) -> ScenarioForm:
    try:
        return ScenarioForm.model_validate(document)
    except ValidationError as error:
        raise refusal(error, ScenarioForm) from None
