"""Waits that show what they wait for."""

import pytest

from cutover.clock import poll_until
from cutover.errors import CutoverError
from cutover.infra.waiting import Tell, until


def test_wait_returns_what_was_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("cutover.infra.waiting.POLL", 0.01)
    answers = iter([None, None, 41])

    def look(tell: Tell) -> int | None:
        tell("reads", 0, None)
        return next(answers)

    found = until("the stream", look, within=60, hint="look")

    assert found == 41
    assert "the stream: reads" in capsys.readouterr().err


def test_wait_that_takes_too_long_says_what_to_do() -> None:
    with pytest.raises(CutoverError, match=r"expected an end within 0 s, got none\.\nHint: look at its log"):
        until("the stream", lambda _: None, within=0, hint="look at its log")


def test_what_is_there_is_found_without_time() -> None:
    assert poll_until(lambda: "there", within=0, every=60) == "there"


def test_no_is_an_answer() -> None:
    answers = iter([None, False])

    assert poll_until(lambda: next(answers), within=60, every=0) is False


def test_nothing_is_found_when_the_time_is_over() -> None:
    assert poll_until(lambda: None, within=0.01, every=0.01) is None
