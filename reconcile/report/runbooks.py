"""Runbooks as the report shows them: the page of `docs/runbooks` in full, so that it opens without a network."""

import re
from collections.abc import Callable
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}\Z")


def html(name: str, fill: Callable[[str], str] = str) -> Markup | None:
    """Return a runbook as HTML without its title, its headings one level deeper; None if there is no such page.

    Links to other pages become their names: a report lies elsewhere than the pages.

    Args:
        name: Of the page.
        fill: What to make of its text, in Markdown, before it is rendered.
    """
    if not _NAME.match(name) or not (FOLDER / f"{name}.md").is_file():
        return None
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    body = text.partition("\n")[2]
    deeper = re.sub(r"^(#+ )", r"#\1", body, flags=re.MULTILINE)
    named = re.sub(r"\[([^\]]+)\]\((?:\.\./)?[\w/-]+\.md(?:#[\w-]+)?\)", r"`\1`", fill(deeper))
    # The text is ours, markup in it is switched off all the same.
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(named))  # noqa: S704 -- rendered with html off
