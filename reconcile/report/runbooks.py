"""Runbooks as the report shows them: the page of `docs/runbooks` in full, so that it opens without a network."""

import re
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}\Z")


def html(name: str) -> Markup | None:
    """Return a runbook as HTML, one level deeper than its own headings; None if there is no such page."""
    if not _NAME.match(name) or not (FOLDER / f"{name}.md").is_file():
        return None
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    deeper = re.sub(r"^(#+ )", r"##\1", text, flags=re.MULTILINE)
    # The text is ours, markup in it is switched off all the same.
    return Markup(MarkdownIt("commonmark", {"html": False}).render(deeper))  # noqa: S704 -- rendered with html off
