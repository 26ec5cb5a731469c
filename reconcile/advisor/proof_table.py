"""What was predicted of settings beside what was found, for the terminal and, the same, as Markdown for a page."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cutover import files
from cutover.durations import format_duration
from cutover.errors import DefinitionError
from cutover.reconcile.advisor.prove import FoundOutcome, ProvenSetting
from cutover.reconcile.result import text

COLUMNS = ("", "out-of-orderness", "allowed", "", "windows", "exact on time", "exact in the end", "late records")


def describe_proof(pipeline: str, proven: Sequence[ProvenSetting]) -> str:
    """Return the sentence that says whether all predictions hold, and what to do next."""
    wrong = sum(not one.holds for one in proven)
    said = f"{text.count_noun(len(proven), 'prediction')} for {pipeline}, each beside a run of the streaming path: "
    if not wrong:
        return said + "all hold. Next: put the setting that fits into the definition."
    return said + f"{wrong} wrong. Next: `cutover noise {pipeline}`; trust no advice before this is clear."


def write_page(page: Path, pipeline: str, proven: Sequence[ProvenSetting]) -> None:
    """Put the table into a page, in place of the one that stands between the marks of this pipeline.

    Raises:
        DefinitionError: The page, or its marks, are not there.
    """
    begin, end = f"<!-- proven: {pipeline} -->\n", "<!-- /proven -->"
    old = page.read_text(encoding="utf-8") if page.is_file() else ""
    before, is_there, rest = old.partition(begin)
    _, is_closed, after = rest.partition(end)
    if not (is_there and is_closed):
        msg = f"--page: expected a page with `{begin.strip()}` and `{end}` on lines of their own, got `{page}`."
        raise DefinitionError(msg)
    files.write(page, f"{before}{begin}{to_markdown(proven)}{end}{after}", mode=0o644)


def to_markdown(proven: Sequence[ProvenSetting]) -> str:
    """Return the same rows as a table of Markdown."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *list_rows(proven)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def list_rows(proven: Sequence[ProvenSetting]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of two rows a setting: predicted, then found."""
    for one in proven:
        told = one.setting.prediction
        lengths = (format_duration(told.out_of_orderness), format_duration(told.allowed))
        predicted = FoundOutcome(windows=told.windows, exact=told.exact, on_time=told.on_time, late=told.late)
        yield (one.setting.name, *lengths, "predicted", *_numbers(predicted))
        yield ("", "", "", "found" if one.holds else "found, WRONG", *_numbers(one.found))


def _numbers(outcome: FoundOutcome) -> tuple[str, ...]:
    return tuple(f"{number:,}" for number in (outcome.windows, outcome.on_time, outcome.exact, outcome.late))
