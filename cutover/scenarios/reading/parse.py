"""Parser of scenario files with one scenario or several cases. docs/scenarios.md describes the format."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from cutover.errors import DefinitionError
from cutover.scenarios.reading.file_form import FOR_PEOPLE, SHARED, PointForm, ScenarioForm
from cutover.scenarios.reading.forms import Form
from cutover.scenarios.reading.load import load
from cutover.scenarios.reading.refusals import format_value, refusal
from cutover.scenarios.reading.scenario import Scenario
from cutover.scenarios.reading.setting import scenario_of

JsonObject = Mapping[str, Any]


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
    document = load(path)
    try:
        return _cases(document, path.stem, case) if "cases" in document else [_parse_single(document, path.stem, case)]
    except DefinitionError as error:
        msg = f"Scenario `{path.name}`: {error}"
        raise DefinitionError(msg) from None


def parse(document: JsonObject, *, default_title: str) -> Scenario:
    """Validate a JSON object and convert it into a scenario.

    Raises:
        DefinitionError: The object is invalid; reports the place of the first error.
    """
    return scenario_of(_form(document), default_title=default_title)


def _parse_single(document: JsonObject, title: str, number: int | None) -> Scenario:
    scenario = parse(document, default_title=title)
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
        msg = f"cases: expected a list of at least one case, got {format_value(value)}."
        raise DefinitionError(msg)
    for at, case in enumerate(value):
        if not isinstance(case, dict):
            msg = f"cases[{at}]: expected an object, got {format_value(case)}."
            raise DefinitionError(msg)
    return value


def _numbers(cases: Sequence[JsonObject]) -> Sequence[int]:
    positions: dict[int, int] = {}
    for at, case in enumerate(cases):
        number = case.get("case")
        if not isinstance(number, int) or isinstance(number, bool):
            actual = "nothing" if number is None else format_value(number)
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
