"""Markdown table of the predicted and the measured effect of settings."""

from collections.abc import Iterator
from pathlib import Path

from cutover import files
from cutover.errors import DefinitionError
from cutover.reconcile.advisor.advice_text import PROOF_HEADS, list_proof_rows
from cutover.reconcile.result.advice import Advice


def write_page(page: Path, advice: Advice) -> None:
    """Put the table into a page, in place of the one that stands between the marks of this pipeline.

    Raises:
        DefinitionError: The page, or its marks, are not there.
    """
    begin, end = f"<!-- proven: {advice.pipeline} -->\n", "<!-- /proven -->"
    old = page.read_text(encoding="utf-8") if page.is_file() else ""
    before, is_there, rest = old.partition(begin)
    _, is_closed, after = rest.partition(end)
    if not (is_there and is_closed):
        msg = f"--page: expected a page with `{begin.strip()}` and `{end}` on lines of their own, got `{page}`."
        raise DefinitionError(msg)
    files.write(page, f"{before}{begin}{''.join(_list_lines(advice))}{end}{after}", mode=0o644)


def _list_lines(advice: Advice) -> Iterator[str]:
    for line in (PROOF_HEADS, ("---",) * len(PROOF_HEADS), *list_proof_rows(advice)):
        yield f"| {' | '.join(line)} |\n"
