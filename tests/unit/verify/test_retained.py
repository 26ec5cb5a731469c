"""Epochs are counted from a log whose start moves while it is read."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cutover.errors import LogError
from cutover.reconcile.verify.facts import source
from cutover.reconcile.verify.facts.source import SameLog
from tests.unit.verify.epochs import chain_of

ASKED: Any = SimpleNamespace(lake=None, records=())


def log_from(earliest: int) -> SameLog:
    return SameLog(client=cast("Any", None), topic="t", isolation="read_committed", earliest={0: earliest})


def read(monkeypatch: pytest.MonkeyPatch, starts: list[int], *, fails_at: set[int]) -> int:
    """Read a log whose start moves through the given offsets; return the start at which it was read."""
    monkeypatch.setattr(source, "same_log", lambda *_: log_from(starts.pop(0) if len(starts) > 1 else starts[0]))

    def fail(log: SameLog) -> int:
        if log.earliest[0] in fails_at:
            msg = "offset out of range"
            raise LogError(msg)
        return log.earliest[0]

    return source.read_retained(ASKED, ASKED, fail)


def test_records_deleted_meanwhile_are_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, [1, 5, 9], fails_at={1, 5}) == 9


def test_a_log_that_fails_without_moving_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogError, match="out of range"):
        read(monkeypatch, [1], fails_at={1})


def test_retention_that_is_always_faster_ends_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogError, match="out of range"):
        read(monkeypatch, list(range(100)), fails_at=set(range(100)))


def test_ranges_begin_where_the_log_does_at_the_earliest() -> None:
    first_epoch, *_, last_epoch = records = chain_of(3)

    assert log_from(0).ranges(records)[0] == (first_epoch.start[0], last_epoch.end[0])
    assert log_from(first_epoch.start[0] + 1).ranges(records)[0] == (first_epoch.start[0] + 1, last_epoch.end[0])
