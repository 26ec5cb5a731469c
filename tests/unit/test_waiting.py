"""Waits that show what they wait for."""

import pytest

from cutover.clock import poll_until
from cutover.errors import CutoverError
from cutover.infra.demo.runs import UpdateProgress, wait_for


def test_wait_returns_what_was_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("cutover.infra.demo.runs.POLL", 0.01)
    answers = iter([None, None, 41])

    def poll(update_progress: UpdateProgress) -> int | None:
        update_progress("reads", 0, None)
        return next(answers)

    result = wait_for("the stream", poll, timeout=60, hint="see its log")

    assert result == 41
    assert "the stream: reads" in capsys.readouterr().err


def test_wait_that_takes_too_long_has_a_hint() -> None:
    with pytest.raises(CutoverError, match=r"expected an end within 0 s, got none\.\nHint: see its log"):
        wait_for("the stream", lambda _: None, timeout=0, hint="see its log")


def test_what_is_there_is_found_without_time() -> None:
    assert poll_until(lambda: "there", timeout=0, interval=60) == "there"


def test_no_is_an_answer() -> None:
    answers = iter([None, False])

    assert poll_until(lambda: next(answers), timeout=60, interval=0) is False


def test_nothing_is_found_when_the_time_is_over() -> None:
    assert poll_until(lambda: None, timeout=0.01, interval=0.01) is None
