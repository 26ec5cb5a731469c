"""Scenario files on disk: selected cases, and messages for unreadable files."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cutover.definition import (
    Accumulation,
)
from cutover.errors import DefinitionError
from cutover.scenarios.reading.parse import parse_cases, parse_file
from tests.support.rows.scenario_parts import (
    GOOD,
    POINT,
)


def written(path: Path, value: object) -> Path:
    file = path / "scenario.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return file


def cases(*several: object, **shared: Any) -> dict[str, Any]:
    return {**GOOD, "cases": list(several), **shared}


def test_case_is_selected_from_a_file_with_several(tmp_path: Path) -> None:
    shared = {name: value for name, value in GOOD.items() if name != "accumulation"}
    several = [
        {"case": 1, "title": "one", "accumulation": "accumulating"},
        {"case": 2, "accumulation": "discarding"},
    ]
    file = written(tmp_path, {**shared, "title": "all", "cases": several})

    assert parse_file(file, case=1).title == "one"
    assert parse_file(file, case=2).setting.accumulation is Accumulation.DISCARDING
    assert [case.title for case in parse_cases(file)] == ["one", "all"]


def test_only_case_of_a_file_needs_no_number(tmp_path: Path) -> None:
    assert parse_file(written(tmp_path, cases({"case": 3}))).case == 3
    assert parse_file(written(tmp_path, {**GOOD, "case": 3}), case=3).case == 3


def test_title_is_that_of_the_file_if_none_is_given(tmp_path: Path) -> None:
    assert parse_file(written(tmp_path, GOOD)).title == "scenario"


def test_numbers_with_a_point_are_exact(tmp_path: Path) -> None:
    file = written(tmp_path, {**GOOD, "points": [{**POINT, "value": 0.1}]})

    assert parse_file(file).setting.rows[0].columns == {"value": Decimal("0.1")}


@pytest.mark.parametrize(
    ("content", "case", "message"),
    [
        (cases({"case": 1}, {"case": 2}), None, r"expected --case, since it has 2 cases \(1, 2\), got none"),
        (cases({"case": 1}, {"case": 2}), 3, r"--case: expected one of 2 cases \(1, 2\), got `3`"),
        ({**GOOD, "case": 6}, 7, "--case: expected 6, since the file has no other, got `7`"),
        (
            cases({"case": 1}, {"case": 7}, {"case": 7}),
            1,
            r"cases\[2\].case: expected a unique number, got `7`, which cases\[1\] has",
        ),
        (cases({"case": 1}, {"title": "x"}), 1, r"cases\[1\].case: expected a whole number, .* got nothing"),
        (cases({"case": True}), None, r"cases\[0\].case: expected a whole number, .* got `true`"),
        (cases({"case": 1}, {"case": 2, "triger": 5}), 1, "case 2: unknown field `triger`"),
        (cases({"case": 1}, {"case": 2, "allowed_lateness": 5}), 1, "case 2: allowed_lateness: expected"),
        (
            cases({"case": 1, "accumulation": "discarding"}),
            1,
            "case 1: accumulation: expected either for all cases or in this one, got both",
        ),
        (cases({"case": 1}, points=[{}]), 1, r"`: points\[0\].event_time: expected a time"),
        (cases({"case": 1}, engine="x"), 1, "unknown field `engine` next to `cases`"),
        (cases({"case": 1}, watermark=None), 1, "case 1: trigger: expected a `watermark`"),
        ({**GOOD, "cases": {}}, None, "cases: expected a list of at least one case, got `{}`"),
        ({**GOOD, "cases": []}, None, "cases: expected a list of at least one case"),
        ({**GOOD, "cases": [5]}, None, r"cases\[0\]: expected an object, got `5`"),
        ("", None, "expected one JSON object, got an empty file"),
        (" \n", None, "expected one JSON object, got an empty file"),
        ("{", None, "expected JSON, got"),
        ("[]", None, "Scenario `scenario.json`: expected one JSON object, got a list"),
        ('{"points": [NaN]}', None, "got NaN, which is not JSON"),
        ('{"points": [], "points": []}', None, "got the field `points` twice in one object"),
        ("[" * 100_000, None, "expected JSON, got objects nested too deeply"),
        ({**GOOD, "accumulation": "x"}, None, "Scenario `scenario.json`: accumulation: expected one of"),
    ],
)
def test_invalid_file_is_rejected_by_its_name(tmp_path: Path, content: object, case: int | None, message: str) -> None:
    with pytest.raises(DefinitionError, match=message) as refused:
        parse_file(written(tmp_path, content), case=case)
    assert str(refused.value).startswith("Scenario `scenario.json`: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(GOOD).encode("utf-16"), "expected text in UTF-8, got UTF-16.\nHint: `iconv -f UTF-16"),
        (json.dumps(GOOD).encode("utf-32"), "expected text in UTF-8, got UTF-32"),
        ('{\n"title": "caf\u00e9"}'.encode("latin-1"), "expected text in UTF-8, got the byte 0xe9, line 2"),
    ],
)
def test_file_of_another_encoding_is_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "scenario.json").write_bytes(content)

    with pytest.raises(DefinitionError, match=message):
        parse_file(tmp_path / "scenario.json")


def test_byte_order_mark_of_utf_8_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_bytes(json.dumps(GOOD).encode("utf-8-sig"))

    assert parse_file(tmp_path / "scenario.json").setting.rows


@pytest.mark.parametrize(
    ("name", "message"), [("none.json", "got No such file"), ("", "expected a file, got a folder")]
)
def test_unreadable_file_is_rejected(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        parse_file(tmp_path / name)
