"""Lasting conditions in the heartbeat: silence, backlog, open transactions and clock skew."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cutover.streaming.process.context import Health, LogSnapshot
from cutover.streaming.process.heartbeat import HeartbeatWriter, first_beat


class HandClock:
    """Clock that changes only when a test moves it."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.set_by = 0.0  # seconds by which the wall clock was set

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds + self.set_by, tz=UTC)

    def monotonic(self) -> float:
        return self.seconds


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def beat(clock: HandClock, tmp_path: Path) -> HeartbeatWriter:
    return HeartbeatWriter(tmp_path / "heartbeat.json", first_beat("r", clock), seconds=60, clock=clock)


def test_silence_starts_at_the_first_failed_attempt(beat: HeartbeatWriter, clock: HandClock) -> None:
    health = Health(beat, clock)
    health.note_silence()
    clock.seconds += 30
    health.note_silence()

    assert at(1000) == beat.now.silent_since


def test_answer_ends_the_silence(beat: HeartbeatWriter, clock: HandClock) -> None:
    health = Health(beat, clock)
    health.note_silence()
    health.note_look(LogSnapshot(read={0: 5}, high={0: 5}))

    assert beat.now.silent_since is None


def test_backlog_starts_at_its_first_poll_or_the_last_commit(beat: HeartbeatWriter, clock: HandClock) -> None:
    health, backlog = Health(beat, clock), LogSnapshot(read={0: 5}, high={0: 9}, stable={0: 9})
    health.note_look(backlog)
    clock.seconds += 10
    health.note_look(backlog)
    unread_since = beat.now.unread_since
    health.note_commit()
    clock.seconds += 10
    health.note_look(backlog)

    assert (unread_since, beat.now.unread_since) == (at(1000), at(1020))


def test_record_after_an_open_transaction_is_no_backlog(beat: HeartbeatWriter, clock: HandClock) -> None:
    Health(beat, clock).note_look(LogSnapshot(read={0: 5}, high={0: 9}, stable={0: 5}))

    assert (beat.now.unread_since, dict(beat.now.open_since)) == (None, {"0": at(1000)})


def test_open_transaction_restarts_when_the_stable_offset_moves(beat: HeartbeatWriter, clock: HandClock) -> None:
    health = Health(beat, clock)
    health.note_look(LogSnapshot(read={0: 5}, high={0: 9}, stable={0: 5}))
    clock.seconds += 50
    health.note_look(LogSnapshot(read={0: 5}, high={0: 9}, stable={0: 7}))

    assert dict(beat.now.open_since) == {"0": at(1050)}


def test_open_transaction_that_ended_is_forgotten(beat: HeartbeatWriter, clock: HandClock) -> None:
    health = Health(beat, clock)
    health.note_look(LogSnapshot(read={0: 5}, high={0: 9}, stable={0: 5}))
    health.note_look(LogSnapshot(read={0: 9}, high={0: 9}))

    assert dict(beat.now.open_since) == {}


def test_skew_is_the_drivers_clock_minus_the_newest_log_time(beat: HeartbeatWriter, clock: HandClock) -> None:
    Health(beat, clock).note_look(LogSnapshot(read={0: 5}, high={0: 5}, newest={0: 400_000_000, 1: 1_600_000_000}))

    assert dict(beat.now.skew) == {"0": 600.0, "1": -600.0}


@pytest.mark.parametrize("by", [-3600.0, 3600.0, 86_400_000.0], ids=["an hour back", "an hour ahead", "years ahead"])
def test_durations_are_unaffected_by_the_wall_clock(beat: HeartbeatWriter, clock: HandClock, by: float) -> None:
    health, stuck = Health(beat, clock), LogSnapshot(read={0: 5}, high={0: 9}, stable={0: 5})
    health.note_look(LogSnapshot(read={0: 5}, high={0: 9}, stable={0: 9}))
    health.note_look(stuck)
    health.note_silence()
    clock.seconds += 30
    clock.set_by = by

    assert beat.now.silent_since == at(1000 + by)
    health.note_look(stuck)
    assert dict(beat.now.open_since) == {"0": at(1000 + by)}

    health.note_look(LogSnapshot(read={0: 5}, high={0: 9}, stable={0: 9}))
    clock.seconds += 10
    health.note_look(LogSnapshot(read={0: 5}, high={0: 9}, stable={0: 9}))
    assert beat.now.unread_since == at(1030 + by)
    assert beat.now.quiet_since == at(1000 + by)


def test_a_log_is_quiet_since_the_poll_that_saw_it_grow(beat: HeartbeatWriter, clock: HandClock) -> None:
    health, quiet_since = Health(beat, clock), [beat.now.quiet_since]
    for end in (5, 5, 6, 6):
        clock.seconds += 10
        health.note_look(LogSnapshot(read={0: 5}, high={0: end}))
        quiet_since.append(beat.now.quiet_since)

    assert quiet_since == [None, at(1010), at(1010), at(1030), at(1030)]


def test_the_written_beat_follows_a_wall_clock_that_was_set(
    beat: HeartbeatWriter, clock: HandClock, tmp_path: Path
) -> None:
    Health(beat, clock).note_silence()
    beat.start()
    clock.set_by = -7200.0

    beat.end(state="STOPPED")

    stored = json.loads((tmp_path / "heartbeat.json").read_text(encoding="utf-8"))
    assert (stored["silent_since"], stored["at"]) == (at(1000 - 7200), at(1000 - 7200))
