"""End of a streaming driver, derived from its last heartbeat, and the decision between a restart and a failed task.

As long as its task runs, the stream should run: a driver that was stopped outside Airflow (`cutover down`, a reboot, a
signal) is restarted like one that crashed. If a person stops the task, nothing watches the driver and it stays stopped.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from cutover.streaming.process.heartbeat import Heartbeat

Outcome = Literal["refused", "gone"]
FIRST_DELAY = 5.0  # seconds
LONGEST_DELAY = 300.0  # seconds
INVALID = 2  # exit code: a person has to act before anything is read or written again
UNREACHABLE = "KafkaUnreachable"
TRANSIENT = {UNREACHABLE, "StreamNotRunning"}  # runbooks of errors that a restart may resolve
GIVE_UP_AFTER = 8  # starts in a row without a new epoch: about a quarter of an hour


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEnd:
    """End of a driver: its outcome and message, and the number of ends in a row."""

    outcome: Outcome
    message: str
    epoch: int | None  # latest one in its heartbeat
    failures: int  # ends since an epoch was last committed, this one included
    runbook: str | None = None

    @property
    def delay(self) -> float:
        """Seconds to wait before the next start: 5, 10, 20, ... up to 300."""
        return 0.0 if self.needs_person else min(FIRST_DELAY * 2 ** (self.failures - 1), LONGEST_DELAY)

    @property
    def needs_person(self) -> bool:
        """True if a person has to act before the next start; an unreachable broker is retried without limit."""
        return self.outcome == "refused" or (self.failures >= GIVE_UP_AFTER and self.runbook != UNREACHABLE)

    def to_event(self) -> dict[str, Any]:
        """Encode the end in JSON values, which Airflow stores as an event."""
        return asdict(self)

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> Self:
        """Parse an event that `to_event` encoded."""
        return cls(**event)


def find_end(beat: Heartbeat | None, *, epoch: int | None, failures: int) -> DriverEnd | None:
    """Derive the end of a driver from its heartbeat; None while it is alive.

    Args:
        beat: Its last heartbeat; None if there is none.
        epoch: Latest committed epoch when it was started; None before the first.
        failures: Ends in a row without a new epoch, before this one.
    """
    if beat is not None and beat.alive:
        return None
    last_epoch = epoch if beat is None or beat.epoch is None else beat.epoch
    has_progressed = last_epoch is not None and (epoch is None or last_epoch > epoch)
    count = 1 if has_progressed else failures + 1
    if beat is None:
        message = "the driver left no heartbeat"
        return DriverEnd(outcome="gone", message=message, epoch=last_epoch, failures=count, runbook="StreamNotRunning")
    if beat.state == "STOPPED":
        message = f"driver {beat.pid} was stopped outside Airflow"
        return DriverEnd(outcome="gone", message=message, epoch=last_epoch, failures=1)
    outcome: Outcome = "gone"
    if beat.state == "FAILED" and beat.exit_code == INVALID and beat.runbook not in TRANSIENT:
        outcome = "refused"
    message = _describe_cause(beat)
    return DriverEnd(outcome=outcome, message=message, epoch=last_epoch, failures=count, runbook=beat.runbook)


def _describe_cause(beat: Heartbeat) -> str:
    if beat.state == "FAILED":
        return f"driver {beat.pid} ended with exit code {beat.exit_code}: {beat.error or 'no message'}"
    return f"driver {beat.pid} ended without a message (killed?); its last state was {beat.state}"
