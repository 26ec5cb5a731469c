"""Columns that only `from_json` reads: money as text, and times in further forms of ISO 8601."""

from pathlib import Path
from typing import Any

import pytest

from cutover.definition.loading import catalogue
from cutover.records.parsing.parsed_record import JsonNumber
from cutover.records.proposal import template
from cutover.records.proposal.guess import Guess, Survey

AT = "2026-03-02T00:00:00Z"


def guess(sample: list[dict[str, Any]]) -> Guess:
    survey = Survey(is_cells=False)
    for line, record in enumerate(sample, start=1):
        survey.add(line, record)
    return survey.guess()


def types(guessed: Guess) -> dict[str, str]:
    return {column.name: column.type for column in guessed.columns}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["12.34", "-0.5"], "decimal(18,2)"),
        (["12.34", "7"], "decimal(18,2)"),
        (["1234567890123456789.125"], "decimal(22,3)"),
        (["12", "7"], "decimal(18,0)"),
        (["12", "07"], "string"),
        (["007.50"], "string"),
        (["12.34", "n/a"], "string"),
        (["1e2", "1.5"], "string"),
        (["1." + "2" * 40], "string"),
    ],
)
def test_text_is_proposed_as_a_decimal_only_if_each_has_plain_digits_and_one_a_fraction(
    values: list[str], kind: str
) -> None:
    assert types(guess([{"at": AT, "amount": value} for value in values]))["amount"] == kind


def test_numbers_and_texts_of_numbers_are_one_column() -> None:
    numbers = [JsonNumber("1.5"), "2.25", None]
    guessed = guess([{"at": AT, "shop": "a", "amount": value} for value in numbers])

    assert (types(guessed)["amount"], guessed.amount) == ("decimal(18,2)", "amount")


@pytest.mark.parametrize(
    ("time", "time_format"),
    [
        ("2026-03-02 00:00:00+00", "iso"),
        ("2026-03-02 00:00:00 UTC", "iso"),
        ("2026-03-02T00:00Z", "yyyy-MM-dd'T'HH:mmXXX"),
        ("2026-3-2", "yyyy-M-d"),
        ("2026-03-02T00:00:00+01:00[Europe/Oslo]", "yyyy-MM-dd'T'HH:mm:ssXXX'[Europe/Oslo]'"),
        ("Mon, 02 Mar 2026 00:00:00 GMT", None),
    ],
)
def test_time_without_a_pattern_is_proposed_as_from_json_reads_it(time: str, time_format: str | None) -> None:
    guessed = guess([{"created_at": time, "shop": "a"}] * 2)

    assert guessed.event_time == (None if time_format is None else "created_at")
    assert guessed.needs_from_json == (time_format == "iso")
    assert guessed.time_format == (time_format or "iso")


def test_definition_states_the_form_and_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    guessed = guess([{"at": AT, "shop": "a", "amount": "12.34"}] * 2)
    path.write_text(template.render_definition("mine", "t", "a.json", guessed), encoding="utf-8")

    assert catalogue.load_file(path)[0].source.parse == "from_json"
    assert (
        '# As jobs read values: the strict form would reject `amount` ("12.34") as decimal(18,2).' in path.read_text()
    )


def test_strict_form_is_not_written() -> None:
    guessed = guess([{"at": AT, "shop": "a", "amount": JsonNumber("1")}])

    assert "parse=" not in template.render_definition("mine", "t", "a.json", guessed)
