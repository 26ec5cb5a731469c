"""Strict parser of scenario files with one scenario or several cases. docs/scenarios.md describes the format.

A file is UTF-8 with one JSON object, no duplicate fields, and exact numbers.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from pydantic import Field, ValidationError

from cutover.errors import DefinitionError
from cutover.scenarios.reading.forms import FOR_PEOPLE, SHARED, Form, PointForm, ScenarioForm
from cutover.scenarios.reading.refusals import quote_value, refusal
from cutover.scenarios.reading.setting import Scenario, scenario_of

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
