"""What drills came to, written down: results, the table of `docs/drills.md`, the times in the pages' heads."""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from cutover import files
from cutover.infra.drills.perform import DrillOutcome
from cutover.runbooks import folder
from cutover.runbooks.page import Page

Recorded = Mapping[str, Mapping[str, Any]]
"""Name of a drill to the fields of its newest outcome."""


_HEAD = """# Drills

The table shows how long each alert took to be detected, and its runbook to repair the fault: {drills} drills with
{commands} commands of runbooks, each followed by `cutover verify P --all`, in which N1 to N6 held. `make drills` runs
all of them again and writes this page from the latest run of each.

A drill causes an alert on an embedded stack (a separate broker, lake and pipeline), follows its runbook block by block,
and compares the output of each command with the page. *Detected* is the time from the injection to the alert in
`cutover watch`, *repaired* the time from then until the alert was clear, including the commands.

Time limits are scaled down, so that a drill takes a minute or two; an installation detects a fault after its own limit
and one evaluation. The times are those of one run, on that machine and under its load.
"""


def add(file: Path, outcome: DrillOutcome) -> None:
    """Put an outcome in the place of the one that the file of results has of this drill."""
    results = dict(files.read_json(file) or {})
    files.write(file, _to_text({**results, outcome.name: asdict(outcome)}), mode=0o644)


def read(file: Path) -> Recorded:
    """Return the newest outcome of each drill; none before the first."""
    return {name: dict(row) for name, row in (files.read_json(file) or {}).items() if isinstance(row, dict)}


def write_page(file: Path, recorded: Recorded) -> None:
    """Write the table of drills: one row for each runbook, drilled or not."""
    pages = [folder.read_page(name) for name in folder.list_names()]
    files.write(file, make_page(pages, recorded), mode=0o644)


def write_heads(recorded: Recorded) -> None:
    """Write into the pages when they were drilled last, and how long it took."""
    for name, row in recorded.items():
        day = datetime.fromisoformat(row["at"]).date()
        folder.write_times(name, day=day, detect_seconds=row["detect_seconds"], repair_seconds=row["repair_seconds"])


def make_page(pages: Iterable[Page], recorded: Recorded) -> str:
    """Return the table as Markdown.

    Args:
        pages: All runbooks.
        recorded: Results by name.
    """
    pages = list(pages)
    drilled = [_format_row(page, recorded[page.name]) for page in pages if page.name in recorded]
    other_lines = [f"| [{p.name}](runbooks/{p.name}.md) | {_say_reason(p)} |" for p in pages if p.name not in recorded]
    commands = sum(len(row["steps"]) for row in recorded.values())
    return "\n".join(
        (
            _HEAD.format(drills=len(drilled), commands=commands),
            "| alert | what was done | detected in | repaired in | commands | limits, scaled down | day |",
            "|---|---|---|---|---|---|---|",
            *drilled,
            "",
            "## Without a drill",
            "",
            "| page | why |",
            "|---|---|",
            *other_lines,
            "",
        )
    )


def _format_row(page: Page, row: Mapping[str, Any]) -> str:
    cells = (
        f"[{page.name}](runbooks/{page.name}.md)",
        row["title"],
        f"{row['detect_seconds']:.1f} s",
        f"{row['repair_seconds']:.1f} s",
        str(len(row["steps"])),
        ", ".join(f"`{name}` {value:g}" for name, value in row["scale"].items()),
        str(row["at"])[:10],
    )
    return f"| {' | '.join(cells)} |"


def _say_reason(page: Page) -> str:
    return page.head.no_drill or "not run yet"


def _to_text(rows: Mapping[str, object]) -> str:

    return json.dumps(rows, indent=1, sort_keys=True) + "\n"


def main(results: Path, page: Path) -> None:
    """Write the table and the pages' heads from a file of results.

    Args:
        results: Written by `cutover drill --results`.
        page: The table, `docs/drills.md`.
    """
    recorded = read(results)
    write_heads(recorded)
    write_page(page, recorded)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
