"""Folder of the pages, and the values that a drill writes into them: when it ran last, and how long it took."""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from cutover import files
from cutover.errors import DefinitionError
from cutover.runbooks.page import Page, parse_page, split_head

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}\Z")


def list_runbooks() -> list[str]:
    """List the names of all pages, sorted; none in an installation without them."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


def read_text(name: str) -> str | None:
    """Read the text of a page; None if no page has this name."""
    file = FOLDER / f"{name}.md"
    return file.read_text(encoding="utf-8") if _NAME.match(name) and file.is_file() else None


def read_page(name: str) -> Page:
    """Read and parse a page.

    Raises:
        DefinitionError: The page does not exist or is invalid.
    """
    text = read_text(name)
    if text is None or name == "README":
        msg = f"Runbook: expected the name of a page in `docs/runbooks`, got `{name[:80]}`."
        raise DefinitionError(msg + "\nHint: the README of that folder lists them; they have the names of alerts.")
    return parse_page(name, text)


def write_times(name: str, *, day: date, detect_seconds: float, repair_seconds: float) -> None:
    """Write the day of the latest drill and its times to detect and to repair into a page's head."""
    text = read_text(name)
    if text is None:
        return
    values = {
        "last_drilled": f"{day:%Y-%m-%d}",
        "time_to_detect": f"{detect_seconds:.1f} s",
        "time_to_repair": f"{repair_seconds:.1f} s",
    }
    files.write_atomically(FOLDER / f"{name}.md", replace_head_values(text, values), mode=0o644)


def replace_head_values(text: str, values: Mapping[str, str]) -> str:
    """Replace the values of some keys in a page's head."""
    head, body = split_head(text)
    lines = [line.partition(": ") for line in head.splitlines()]
    return "".join(f"{key}{colon}{values.get(key, value)}\n" for key, colon, value in lines) + body
