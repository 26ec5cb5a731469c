"""What became of a driver that is no longer there, and what to do about it: pure, over its last heartbeat."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from streaming.heartbeat import Heartbeat

Outcome = Literal["stopped", "refused", "died"]
FIRST_DELAY = 5.0  # seconds
LONGEST_DELAY = 300.0  # seconds
REFUSED = 2  # exit code: a person has to look before anything is read or written again
WAIT_FOR = "KafkaUnreachable"  # the one refusal that mends itself


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEnd:
    """How a driver ended. `failures` counts the ends since an epoch was last committed."""

    outcome: Outcome
    message: str
    epoch: int | None  # newest that its heartbeat named
    failures: int

    @property
    def delay(self) -> float:
        """Return the seconds to wait before the next start: 5, 10, 20, ... up to 300."""
        return 0.0 if self.outcome != "died" else min(FIRST_DELAY * 2 ** (self.failures - 1), LONGEST_DELAY)

    def to_event(self) -> dict[str, Any]:
        """Return the payload of a trigger event."""
        return asdict(self)

    @classmethod
    def from_event(cls, event: dict[str, Any]) -> Self:
        """Return what `to_event` wrote."""
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
    reached = epoch if beat is None or beat.epoch is None else beat.epoch
    progress = reached is not None and (epoch is None or reached > epoch)
    count = 1 if progress else failures + 1
    if beat is None:
        return DriverEnd(outcome="died", message="the driver left no heartbeat", epoch=reached, failures=count)
    if beat.state == "STOPPED":
        return DriverEnd(outcome="stopped", message=f"driver {beat.pid} was asked to stop", epoch=reached, failures=0)
    if beat.state == "FAILED" and beat.exit_code == REFUSED and beat.runbook != WAIT_FOR:
        return DriverEnd(outcome="refused", message=beat.error or "no message", epoch=reached, failures=count)
    return DriverEnd(outcome="died", message=_cause(beat), epoch=reached, failures=count)


def _cause(beat: Heartbeat) -> str:
    if beat.state == "FAILED":
        return f"driver {beat.pid} ended with exit code {beat.exit_code}: {beat.error or 'no message'}"
    return f"driver {beat.pid} is gone without a word (killed?); its last state was {beat.state}"
