"""Runbooks as the report shows them: the page of `docs/runbooks` in full, so that it opens without a network."""

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markupsafe import Markup

from cutover.runbooks import folder
from cutover.runbooks.parse import split_head


def html(name: str, fill: Callable[[str], str] = str) -> Markup | None:
    """Return a runbook as HTML without its head and title, its headings one level deeper; None if there is no page.

    Links to other pages become their names: a report lies elsewhere than the pages.

    Args:
        name: Of the page.
        fill: What to make of its text, in Markdown, before it is rendered.
    """
    text = folder.read_text(name)
    if text is None:
        return None
    body = split_head(text)[1].partition("\n")[2]
    deeper = re.sub(r"^(#+ )", r"#\1", body, flags=re.MULTILINE)
    without_links = re.sub(r"\[([^\]]+)\]\((?:\.\./)?[\w/-]+\.md(?:#[\w-]+)?\)", r"`\1`", fill(deeper))
    # The text is ours, markup in it is switched off all the same.
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(without_links))  # noqa: S704 -- rendered with html off
