"""Reactions to a driver that ended, as a table over its last heartbeat."""

from dataclasses import asdict

import pytest
from heartbeat_trigger import DriverEnd, find_end

from cutover.process import identify_current
from cutover.streaming.process.heartbeat import Heartbeat, State

GONE = {"pid": 2**22 + 1, "boot": "", "started": 1.0}


def beat(state: State, *, epoch: object = 41, **more: object) -> Heartbeat:
    return Heartbeat.from_json(
        {**GONE, "run_id": "r", "at": "2026-01-01T00:00:00Z", "state": state, "epoch": epoch, **more}
    )


def find_driver_end(heartbeat: Heartbeat | None, *, epoch: int | None = 41, failures: int = 0) -> DriverEnd:
    end = find_end(heartbeat, epoch=epoch, failures=failures)
    assert end is not None
    return end


def test_living_driver_has_not_ended() -> None:
    living = asdict(identify_current())

    assert find_end(beat("RUNNING", **living), epoch=41, failures=0) is None


def test_killed_driver_died_after_its_last_epoch() -> None:
    end = find_driver_end(beat("RUNNING", epoch=57))

    assert (end.outcome, end.epoch, end.failures) == ("gone", 57, 1)


def test_driver_that_was_stopped_outside_airflow_is_started_again_without_counting_up() -> None:
    end = find_driver_end(beat("STOPPED", exit_code=0), failures=7)

    assert (end.outcome, end.failures, end.needs_person) == ("gone", 1, False)


@pytest.mark.parametrize("runbook", ["LogDataLost", "TopicIdentityChanged", "StreamFenced", None])
def test_driver_that_refused_is_left_to_a_person(runbook: str | None) -> None:
    end = find_driver_end(beat("FAILED", exit_code=2, error="Topic t: expected offset 7.", runbook=runbook))

    assert (end.outcome, end.needs_person) == ("refused", True)
    assert end.message == f"driver {GONE['pid']} ended with exit code 2: Topic t: expected offset 7."


@pytest.mark.parametrize("runbook", ["KafkaUnreachable", "StreamNotRunning"])
def test_refusal_that_mends_itself_is_tried_again(runbook: str) -> None:
    end = find_driver_end(beat("FAILED", exit_code=2, runbook=runbook))

    assert (end.outcome, end.needs_person) == ("gone", False)


@pytest.mark.parametrize(("runbook", "expected"), [("KafkaUnreachable", False), ("StreamNotRunning", True)])
def test_eighth_failure_in_a_row_is_hopeless_unless_the_broker_is_away(runbook: str, *, expected: bool) -> None:
    assert find_driver_end(beat("FAILED", exit_code=2, runbook=runbook), failures=7).needs_person is expected


def test_crash_is_tried_again_with_its_exit_code_in_the_message() -> None:
    end = find_driver_end(beat("FAILED", exit_code=1, error="the JVM has ended"))

    assert (end.outcome, end.message) == ("gone", f"driver {GONE['pid']} ended with exit code 1: the JVM has ended")


def test_missing_heartbeat_counts_as_a_death() -> None:
    assert (find_driver_end(None).outcome, find_driver_end(None, failures=2).failures) == ("gone", 3)


@pytest.mark.parametrize(
    ("started_at", "epoch_reached", "failures", "expected"),
    [(41, 41, 3, 4), (41, 42, 3, 1), (None, 0, 3, 1), (None, None, 3, 4), (41, None, 0, 1)],
)
def test_new_epoch_starts_the_count_of_failures_anew(
    started_at: int | None, epoch_reached: int | None, failures: int, expected: int
) -> None:
    assert (
        expected == find_driver_end(beat("RUNNING", epoch=epoch_reached), epoch=started_at, failures=failures).failures
    )


def test_delays_double_up_to_five_minutes() -> None:
    delays = [
        DriverEnd(outcome="gone", message="", epoch=None, failures=n, runbook="KafkaUnreachable").delay
        for n in range(1, 9)
    ]

    assert delays == [5, 10, 20, 40, 80, 160, 300, 300]


def test_end_survives_the_way_through_airflow() -> None:
    end = find_driver_end(beat("FAILED", exit_code=1, error="x"))

    assert DriverEnd.from_event(end.to_event()) == end
