"""What a check says: the violations it found, or why it cannot tell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cutover.timestamps import format_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that must hold and does not."""

    check: str  # "N1"
    text: str  # one sentence: thing, place, expected, got


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A fact that cannot be had."""

    why: str


class CheckState(StrEnum):
    """What is known of one check."""

    HELD = "held"
    VIOLATED = "violated"
    NOT_PROVABLE = "not_provable"
    WAIVED = "waived"  # the definition does not promise it


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one check has come to."""

    name: str
    title: str
    state: CheckState
    why: str = ""  # of a check that cannot be judged
    runbook: str | None = None  # of a check that cannot be judged
    looked_at: str = ""
    notes: tuple[str, ...] = ()  # what was left out, and why
    violations: tuple[Violation, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """All checks of one pipeline."""

    pipeline: str
    checks: Mapping[str, Checked]
    epoch: int | None = None  # newest one that was looked at
    table_version: int | None = None
    error: str | None = None  # why nothing could be judged
    runbook: str | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def violations(self) -> tuple[Violation, ...]:
        """In the order of the checks."""
        return tuple(violation for checked in self.checks.values() for violation in checked.violations)

    @property
    def exit_code(self) -> int:
        """Return 0: all hold; 1: a violation; 2: some check cannot be judged."""
        states = {checked.state for checked in self.checks.values()}
        if CheckState.VIOLATED in states:
            return 1
        return 2 if CheckState.NOT_PROVABLE in states or self.error is not None else 0

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `cutover verify --json` prints."""
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
                    "why": c.why,
                    "looked_at": c.looked_at,
                    "notes": list(c.notes),
                    "violations": [v.text for v in c.violations],
                    "seconds": c.seconds,
                }
                for c in self.checks.values()
            ],
        }


MOST = 10
"""Violations of one kind that a check names; how many more there are it says in one."""


def cap_violations(check: str, texts: Sequence[str]) -> Iterable[Violation]:
    """Yield a violation for each text, the first few of them, and how many more there are."""
    for text in texts[:MOST]:
        yield Violation(check=check, text=text)
    if len(texts) > MOST:
        yield Violation(check=check, text=f"... and {len(texts) - MOST:,} more like the last one.")


def moment(micros: int | None) -> str:
    """Return microseconds since 1970 as ISO text in UTC."""
    return format_micros(micros) or "none"
