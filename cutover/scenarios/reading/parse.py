"""Scenarios from their file: one, or several cases. docs/scenarios.md describes the format."""

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

Given = Mapping[str, Any]


class _Points(Form):
    """The rows that all cases of a file share: read once."""

    points: list[PointForm] = Field(description="a list of rows")


def parse_file(path: Path, *, case: int | None = None) -> Scenario:
    """Read a file with one scenario, or one case of a file with several.

    Raises:
        DefinitionError: The first thing that does not fit, with file, case and place; nothing has run.
    """
    cases = parse_cases(path, case=case)
    if len(cases) > 1:
        known = ", ".join(str(case.case) for case in cases)
        msg = f"Scenario `{path.name}`: expected --case, since it has {len(cases)} cases ({known}), got none."
        raise DefinitionError(msg)
    return cases[0]


def parse_cases(path: Path, *, case: int | None = None) -> Sequence[Scenario]:
    """Return all scenarios of a file, in its order, or the one of a number. Cases that are not asked for must fit too.

    Raises:
        DefinitionError: As `parse_file`.
    """
    given = load(path)
    try:
        return _cases(given, path.stem, case) if "cases" in given else [_parse_single(given, path.stem, case)]
    except DefinitionError as error:
        msg = f"Scenario `{path.name}`: {error}"
        raise DefinitionError(msg) from None


def parse(given: Given, *, default_title: str) -> Scenario:
    """Check a JSON object and turn it into a scenario.

    Raises:
        DefinitionError: The first thing that does not fit, with its place.
    """
    return scenario_of(_form(given), default_title=default_title)


def _parse_single(given: Given, title: str, wanted: int | None) -> Scenario:
    found = parse(given, default_title=title)
    if wanted is not None and found.case != wanted:
        msg = f"--case: expected {found.case or 'none'}, since the file has no other, got `{wanted}`."
        raise DefinitionError(msg)
    return found


def _cases(given: Given, title: str, wanted: int | None) -> Sequence[Scenario]:
    cases = _objects(given["cases"])
    shared = {name: value for name, value in given.items() if name != "cases"}
    for name in shared:
        if name not in SHARED:
            msg = f"unknown field `{name[:80]}` beside `cases`: expected one of {', '.join(SHARED)}."
            raise DefinitionError(msg)
    if "points" in shared:
        shared["points"] = _points(shared["points"])
    numbers = _numbers(cases)
    forms = [_case_form(case, shared, number) for case, number in zip(cases, numbers, strict=True)]
    if wanted is not None and wanted not in numbers:
        msg = f"--case: expected one of {len(cases)} cases ({', '.join(map(str, numbers))}), got `{wanted}`."
        raise DefinitionError(msg)
    asked = [form for form in forms if wanted in {None, form.case}]
    return [_of_case(form, f"{shared.get('title', title)}, case {form.case}") for form in asked]


def _objects(value: object) -> Sequence[Given]:
    if not isinstance(value, list) or not value:
        msg = f"cases: expected a list of at least one case, got {format_value(value)}."
        raise DefinitionError(msg)
    for at, one in enumerate(value):
        if not isinstance(one, dict):
            msg = f"cases[{at}]: expected an object, got {format_value(one)}."
            raise DefinitionError(msg)
    return value


def _numbers(cases: Sequence[Given]) -> Sequence[int]:
    found: dict[int, int] = {}
    for at, case in enumerate(cases):
        number = case.get("case")
        if not isinstance(number, int) or isinstance(number, bool):
            got = "nothing" if number is None else format_value(number)
            msg = f"cases[{at}].case: expected a whole number, by which `--case` finds it, got {got}."
            raise DefinitionError(msg)
        if number in found:
            msg = f"cases[{at}].case: expected a number of its own, got `{number}`, which cases[{found[number]}] has."
            raise DefinitionError(msg)
        found[number] = at
    return list(found)


def _case_form(one: Given, shared: Given, number: int) -> ScenarioForm:
    twice = next((name for name in one if name in shared and name not in FOR_PEOPLE), None)
    if twice is not None:
        msg = f"case {number}: {twice}: expected either for all cases or in this one, got both."
        raise DefinitionError(msg)
    try:
        return _form({**shared, **one})
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


def _form(given: Given) -> ScenarioForm:
    try:
        return ScenarioForm.model_validate(given)
    except ValidationError as error:
        raise refusal(error, ScenarioForm) from None
