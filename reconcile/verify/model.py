"""Results of checks: the violations that a check found, or the reason why it could not be evaluated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cutover.timestamps import format_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Place at which an invariant does not hold."""

    check: str  # "N1"
    text: str  # one sentence: thing, place, expected, got


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Fact that could not be gathered."""

    reason: str


class CheckState(StrEnum):
    """State of one check."""

    HELD = "held"
    VIOLATED = "violated"
    NOT_PROVABLE = "not_provable"
    WAIVED = "waived"  # the definition does not promise it


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of one check."""

    name: str
    title: str
    state: CheckState
    reason: str = ""  # set if the check could not be evaluated
    runbook: str | None = None  # set if the check could not be evaluated
    coverage: str = ""  # which epochs, windows or rows were checked
    notes: tuple[str, ...] = ()  # omissions and their reasons
    violations: tuple[Violation, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Results of all checks of one pipeline."""

    pipeline: str
    checks: Mapping[str, CheckResult]
    epoch: int | None = None  # newest checked epoch
    table_version: int | None = None
    error: str | None = None  # reason why no check could be evaluated
    runbook: str | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Concatenate what all checks found, in their order."""
        return tuple(violation for result in self.checks.values() for violation in result.violations)

    @property
    def exit_code(self) -> int:
        """Return 0 if all checks hold, 1 if one is violated, 2 if one could not be evaluated."""
        states = {result.state for result in self.checks.values()}
        if CheckState.VIOLATED in states:
            return 1
        return 2 if CheckState.NOT_PROVABLE in states or self.error is not None else 0

    def to_json(self) -> dict[str, Any]:
        """Encode the verification as `cutover verify --json` prints it."""
        return {
            "pipeline": self.pipeline,
            "exit_code": self.exit_code,
            "epoch": self.epoch,
            "table_version": self.table_version,
            "error": self.error,
            "runbook": self.runbook,
            "seconds": self.seconds,
            "checks": [
                {
                    "check": c.name,
                    "title": c.title,
                    "state": c.state.value,
                    "why": c.reason,
                    "looked_at": c.coverage,
                    "notes": list(c.notes),
                    "violations": [v.text for v in c.violations],
                    "seconds": c.seconds,
                }
                for c in self.checks.values()
            ],
        }


MOST = 10
"""Violations of one kind that a check lists; one more violation counts the others."""


def cap_violations(check: str, texts: Sequence[str]) -> Iterable[Violation]:
    """Yield a violation for each of the first `MOST` texts, and one that counts the others."""
    for text in texts[:MOST]:
        yield Violation(check=check, text=text)
    if len(texts) > MOST:
        yield Violation(check=check, text=f"... and {len(texts) - MOST:,} more like the last one.")


def format_utc_time(micros: int | None) -> str:
    """Format microseconds since 1970 as ISO text in UTC."""
    return format_micros(micros) or "none"
