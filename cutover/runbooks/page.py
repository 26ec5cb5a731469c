"""Values of a runbook: its head, its sections, and the blocks of commands that a drill runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

Use = Literal["read", "changes", "example"]
"""Use of a block: its commands only read, they change something, or they are examples and never run."""

SECTIONS = ("Meaning", "Impact", "Diagnose", "Mitigate", "Fix", "Verify", "Escalate", "Prevent", "Do not")
"""Sections of every page, in order."""

KEYS = (
    "alert",
    "severity",
    "owner",
    "data_risk",
    "drill",
    "last_drilled",
    "time_to_detect",
    "time_to_repair",
)
"""Keys of every head, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Head of a page: key-value pairs before its text.

    Attributes:
        alert: Alert that links to this page; None without one.
        no_alert: Reason why there is no alert; None with one.
        severity: `page`, `ticket` or `info`.
        owner: Team that is responsible.
        data_risk: Possible damage to the data, in a few words.
        drill: Name for `cutover drill`; None without a drill.
        no_drill: Reason why there is no drill.
        last_drilled: Day (UTC) of the latest recorded drill; None before the first.
        detect_seconds: From the injection to the alert, in that drill.
        repair_seconds: From the alert to its end, in that drill.
    """

    alert: str | None
    no_alert: str | None
    severity: str
    owner: str
    data_risk: str
    drill: str | None
    no_drill: str | None
    last_drilled: date | None
    detect_seconds: float | None
    repair_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Command line with its expected output lines, in order; other lines may be in between."""

    line: str
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Block of commands.

    Attributes:
        section: Title of its section.
        use: Use of the block.
        case: Case of the fix to which it belongs (`when=`); None: every case.
        commands: Commands in order.
        place: File and line, for messages.
    """

    section: str
    use: Use
    case: str | None
    commands: tuple[Command, ...]
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Runbook."""

    name: str
    head: Head
    sections: Mapping[str, str]  # title -> text, in the page's order
    blocks: tuple[Block, ...]

    def select_blocks(self, section: str, case: str | None) -> tuple[Block, ...]:
        """Select the blocks of a section that are run in a case, without examples."""
        return tuple(
            block
            for block in self.blocks
            if block.section == section and block.use != "example" and block.case in {None, case}
        )
