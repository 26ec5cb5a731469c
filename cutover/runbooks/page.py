"""One runbook as values: its head, its sections, and the blocks of commands that a drill follows."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

Use = Literal["read", "changes", "example"]
"""Of a block: it only looks, it changes something, or it is shown to people and never run."""

SECTIONS = ("Meaning", "Impact", "Diagnose", "Mitigate", "Fix", "Verify", "Escalate", "Prevent", "Do not")
"""Of every page, in this order."""

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
"""Of every head, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a page says of itself before its text begins.

    Attributes:
        alert: The alert that this page is of; None where there is none.
        no_alert: Why there is none; None where there is one.
        severity: `page`, `ticket` or `info`.
        owner: Team that is called.
        data_risk: What may be wrong with the data, in a few words.
        drill: Name for `cutover drill`; None where there is none.
        no_drill: Why there is none.
        last_drilled: Day (UTC) of the newest recorded drill; None before the first.
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
    """A line that is typed, and the lines that should come out, in order; other lines may stand between them."""

    line: str
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Commands that belong together.

    Attributes:
        section: Where it stands.
        use: Whether it only looks, changes something, or is an example.
        case: The case of the fix that it belongs to (`when=`); None: every case.
        commands: In order.
        place: File and line, for messages.
    """

    section: str
    use: Use
    case: str | None
    commands: tuple[Command, ...]
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One runbook."""

    name: str
    head: Head
    sections: Mapping[str, str]  # title to text, in the page's order
    blocks: tuple[Block, ...]

    def choose_blocks(self, section: str, case: str | None) -> tuple[Block, ...]:
        """Return the blocks of a section that are run in a case: no examples, and none of another case."""
        return tuple(
            block
            for block in self.blocks
            if block.section == section and block.use != "example" and block.case in {None, case}
        )
