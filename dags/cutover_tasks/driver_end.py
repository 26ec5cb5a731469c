"""What became of a driver that is no longer there, and what to do about it: pure, over its last heartbeat.

While its task runs the stream is wanted, so a driver that a person stopped outside Airflow (`cutover down`, a reboot, a
signal) is started again like one that died. Whoever stops the task leaves nobody watching, so that one stays stopped.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from cutover.streaming.process.heartbeat import Heartbeat

Outcome = Literal["refused", "gone"]
FIRST_DELAY = 5.0  # seconds
LONGEST_DELAY = 300.0  # seconds
REFUSED = 2  # exit code: a person has to look before anything is read or written again
UNREACHABLE = "KafkaUnreachable"
MENDS_ITSELF = {UNREACHABLE, "StreamNotRunning"}  # refusals that another start may well get past
GIVE_UP_AFTER = 8  # starts in a row without a new epoch: about a quarter of an hour


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEnd:
    """How a driver ended. `failures` counts the ends since an epoch was last committed."""

    outcome: Outcome
    message: str
    epoch: int | None  # newest that its heartbeat named
    failures: int
    runbook: str | None = None

    @property
    def delay(self) -> float:
        """Return the seconds to wait before the next start: 5, 10, 20, ... up to 300."""
        return 0.0 if self.needs_person else min(FIRST_DELAY * 2 ** (self.failures - 1), LONGEST_DELAY)

    @property
    def needs_person(self) -> bool:
        """Return whether a person has to look before the next start; an absent broker is waited for."""
        return self.outcome == "refused" or (self.failures >= GIVE_UP_AFTER and self.runbook != UNREACHABLE)

    def to_event(self) -> dict[str, Any]:
        """JSON values alone: Airflow stores the event."""
        return asdict(self)

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> Self:
        """Parse what `to_event` wrote."""
        return cls(**event)


def judge(beat: Heartbeat | None, *, epoch: int | None, failures: int) -> DriverEnd | None:
    """Return how a driver ended; None while it lives.

    Args:
        beat: Its last heartbeat; None if there is none.
        epoch: Newest committed epoch when it was started; None before the first.
        failures: Ends in a row without a new epoch, before this one.
    """
    if beat is not None and beat.alive:
        return None
    last_epoch = epoch if beat is None or beat.epoch is None else beat.epoch
    progress = last_epoch is not None and (epoch is None or last_epoch > epoch)
    count = 1 if progress else failures + 1
    if beat is None:
        message = "the driver left no heartbeat"
        return DriverEnd(outcome="gone", message=message, epoch=last_epoch, failures=count, runbook="StreamNotRunning")
    if beat.state == "STOPPED":
        message = f"driver {beat.pid} was stopped outside Airflow"
        return DriverEnd(outcome="gone", message=message, epoch=last_epoch, failures=1)
    outcome: Outcome = "gone"
    if beat.state == "FAILED" and beat.exit_code == REFUSED and beat.runbook not in MENDS_ITSELF:
        outcome = "refused"
    return DriverEnd(outcome=outcome, message=_cause(beat), epoch=last_epoch, failures=count, runbook=beat.runbook)


def _cause(beat: Heartbeat) -> str:
    if beat.state == "FAILED":
        return f"driver {beat.pid} ended with exit code {beat.exit_code}: {beat.error or 'no message'}"
    return f"driver {beat.pid} is gone without a word (killed?); its last state was {beat.state}"
