import os

import pytest

from cutover.errors import LakeError, LogError
from cutover.streaming.microbatch import aggregate
from cutover.streaming.process.context import one_line
from cutover.streaming.process.driver_metrics import Pace, next_pace
from cutover.streaming.sink.committer import new_run_id, pid_of


@pytest.mark.parametrize(
    ("now", "lag", "next_state"),
    [
        ("RUNNING", 1_000, "RUNNING"),
        ("RUNNING", 1_001, "BACKPRESSURED"),
        ("BACKPRESSURED", 500, "BACKPRESSURED"),
        ("BACKPRESSURED", 200, "BACKPRESSURED"),
        ("BACKPRESSURED", 199, "RUNNING"),
    ],
)
def test_pressure_turns_on_above_ten_epochs_and_off_below_two(now: Pace, lag: int, next_state: Pace) -> None:
    assert next_state == next_pace(now, lag=lag, cap=100)


def test_run_id_contains_the_pid() -> None:
    assert str(os.getpid()) == pid_of(new_run_id())


def test_run_id_is_never_used_twice() -> None:
    assert new_run_id() != new_run_id()


def test_stack_of_a_jvm_becomes_its_last_cause() -> None:
    error = RuntimeError("An error occurred\n\tat org.x\nCaused by: java.A: one\n\tat org.y\nCaused by: java.B: two\n")

    assert one_line(error) == "RuntimeError: java.B: two"


def test_own_error_is_shown_as_its_first_line() -> None:
    assert one_line(LogError("Topic x is gone.\nHint: none.")) == "Topic x is gone."


@pytest.mark.parametrize("actual_rows", [9, 11])
def test_overflow_with_unexpected_rows_is_rejected(actual_rows: int) -> None:
    with pytest.raises(
        LakeError, match=rf"Overflow `overflow-3-a`: expected 10 rows in its files, got {actual_rows}\."
    ):
        aggregate.reject_missing("overflow-3-a", expected=10, actual=actual_rows)


def test_overflow_with_all_rows_is_accepted() -> None:
    aggregate.reject_missing("overflow-3-a", expected=10, actual=10)
