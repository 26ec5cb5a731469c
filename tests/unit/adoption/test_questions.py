"""Values that cannot be known: asked for on a terminal, the first one with `--yes`, else an error with the option."""

import sys

import pytest
import typer

from cutover.adoption.draft import MeasureChoice, Question, parse_measure
from cutover.cli.adopt import make_choose
from cutover.errors import DefinitionError

QUESTION = Question(
    option="--event-time FIELD", part="the event time", choices=("at", "created_at"), reason="each reproduces the table"
)


def test_without_a_terminal_the_option_that_states_a_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    with pytest.raises(DefinitionError) as caught:
        make_choose(yes=False)(QUESTION)

    message = str(caught.value)
    assert message.startswith("The event time: expected one value, several fit: `at`, `created_at`; each reproduces")
    assert "`--event-time FIELD`" in message
    assert "`--yes`" in message


def test_the_first_value_is_taken_by_yes_or_if_it_is_the_only_one() -> None:
    assert make_choose(yes=True)(QUESTION) == "at"
    only = Question(option="", part="", choices=("at",), reason="")
    assert make_choose(yes=False)(only) == "at"


def test_on_a_terminal_a_number_is_asked_for_until_it_is_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([7, 0, 2])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: next(answers))

    assert make_choose(yes=False)(QUESTION) == "created_at"


def test_a_stated_measure_is_parsed() -> None:
    assert parse_measure("total", "Sum(amount * 2)") == MeasureChoice("Sum", "amount * 2")
    assert parse_measure("n", "Count()") == MeasureChoice("Count")
    for text in ("Median(x)", "Sum()", "Count(x)", "amount"):
        with pytest.raises(DefinitionError, match="--measure total: expected one of Count, Sum"):
            parse_measure("total", text)
