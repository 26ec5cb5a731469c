"""Markdown table of the predicted and the measured effect of settings."""

from collections.abc import Iterator
from pathlib import Path

from cutover import files
from cutover.errors import DefinitionError
from cutover.reconcile.advisor.advice_text import PROOF_HEADS, list_proof_rows
from cutover.reconcile.result.advice import Advice


def write_proof_table(page: Path, advice: Advice) -> None:
    """Write the table into a page, replacing the one between the marks of this pipeline.

    Raises:
        DefinitionError: The page or its marks are missing.
    """
    begin, end = f"<!-- proven: {advice.pipeline} -->\n", "<!-- /proven -->"
    old = page.read_text(encoding="utf-8") if page.is_file() else ""
    page_start, has_begin, remainder = old.partition(begin)
    _, has_end, page_end = remainder.partition(end)
    if not (has_begin and has_end):
        msg = f"--page: expected a page with `{begin.strip()}` and `{end}` on separate lines, got `{page}`."
        raise DefinitionError(msg)
    files.write(page, f"{page_start}{begin}{''.join(_list_lines(advice))}{end}{page_end}", mode=0o644)


def _list_lines(advice: Advice) -> Iterator[str]:
    for line in (PROOF_HEADS, ("---",) * len(PROOF_HEADS), *list_proof_rows(advice)):
        yield f"| {' | '.join(line)} |\n"
