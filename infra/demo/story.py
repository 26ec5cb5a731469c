"""What happened in a demonstration, with times: a line on the terminal, and a page at its end."""

import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryLine:
    """One thing that happened."""

    at: datetime
    seconds: float  # since the beginning
    what: str
    text: str


@dataclass(slots=True, kw_only=True)
class Story:
    """Collects what happened, in order."""

    page: Path
    begun: float = field(default_factory=time.monotonic)
    lines: list[StoryLine] = field(default_factory=list)

    def tell(self, what: str, text: str) -> None:
        """Keep one thing that happened now, and print it."""
        line = StoryLine(at=datetime.now(UTC), seconds=time.monotonic() - self.begun, what=what, text=text)
        self.lines.append(line)
        sys.stdout.write(f"{line.seconds:5.0f} s  {what}: {text}\n")
        sys.stdout.flush()

    def write(self, seconds: float) -> Path:
        """Write the page as Markdown and return where it is."""
        self.page.parent.mkdir(parents=True, exist_ok=True)
        self.page.write_text(describe_story(self.lines, seconds), encoding="utf-8")
        return self.page


def describe_story(lines: list[StoryLine], seconds: float) -> str:
    """Return a page: what happened, when, and how long all of it took."""
    rows = [f"| {line.at:%H:%M:%S} | {line.seconds:.0f} | {line.what} | {_cell(line.text)} |" for line in lines]
    head = ["# Batch retired, and back", "", f"On eight weeks of flights, accelerated; {seconds:.0f} s in all.", ""]
    return "\n".join([*head, "| at (UTC) | second | what | |", "|---|---|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
