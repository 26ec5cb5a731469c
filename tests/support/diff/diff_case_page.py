"""docs/diff-cases.md, written from the cases: `python -m tests.support.diff.diff_case_page docs/diff-cases.md`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.diff.diff_cases import KEYS, NUMBERS, PEERS, REFUSED, Answer, Case
from tests.support.diff.diff_cases_of_texts import CELLS, VALUES
from tests.support.diff.diff_cases_of_types import CASES, COLUMNS, NESTED, TEXTS, TIMES

GROUPS: Mapping[str, Sequence[Case]] = {
    "Keys": KEYS,
    "Numbers": NUMBERS,
    "Texts, bytes, truth values": TEXTS,
    "Times": TIMES,
    "Nested values": NESTED,
    "Columns, and tables without rows": COLUMNS,
    "Cells of CSV": CELLS,
    "Noise, and types that are not the same": VALUES,
}
HEAD = f"""# Who says what of {len(CASES)} pairs of tables

Written by `make diff-cases` from [the cases](../tests/support/diff/diff_cases.py); the same command asks every tool,
and holds each to the answer that stands here. Who is right, and why, was written down before any of them ran. A
**bold** answer is wrong. `refused` is an error or an exit code 2: no wrong answer, and none that helps.
What Cutover takes for equal, and how to ask for other rules: [cutover diff](diff.md).

- **Cutover**: `cutover diff LEFT RIGHT --key k`. The number of rows that are missing, extra and changed is held too.
- **DataComPy** 1.1.0: `PolarsCompare(...).matches()`, absolute and relative tolerance 0 or as the case asks. On polars,
  since that keeps the types of Parquet; CSV as `polars.read_csv` reads it.
- **EXCEPT ALL**: in DuckDB, both ways, columns by name; equal where no row is left.
- **full join**: in DuckDB, by hand: `IS NOT DISTINCT FROM` on the key, `IS DISTINCT FROM` on each other column.

Tolerances and renamed columns of a case are handed to the tools that can take them; a normal form only Cutover has.
Cutover was wrong once when all were first asked, on the map in another order, and was mended. What is right is in
places a choice, and the choice is ours: noise of sums counts as equal, two empty tables as no proof, a date as no
moment.

"""


def page() -> str:
    """Return the page: how often each is right, and a table for each group of cases."""
    tools = ("Cutover", *PEERS)
    said = [(case.truth, *case.peers) for case in CASES]
    lines = ["| tool | right | wrong | refused |", "| --- | --- | --- | --- |"]
    for number, tool in enumerate(tools):
        marks = [_judge(case, answers[number]) for case, answers in zip(CASES, said, strict=True)]
        lines.append(f"| {tool} | {' | '.join(str(marks.count(mark)) for mark in ('right', 'wrong', 'refused'))} |")
    for title, cases in GROUPS.items():
        lines += ["", f"## {title}", f"| case | {' | '.join(tools)} | why |", f"| --- |{' --- |' * (len(tools) + 1)}"]
        for case in cases:
            cells = " | ".join(_cell(case, answer) for answer in (case.truth, *case.peers))
            lines.append(f"| {case.name} | {cells} | {case.why} |")
    return HEAD + "\n".join(lines) + "\n"


def _judge(case: Case, answer: Answer) -> str:
    if answer == case.truth:
        return "right"
    return "refused" if answer == REFUSED else "wrong"


def _cell(case: Case, answer: Answer) -> str:
    return f"**{answer}**" if _judge(case, answer) == "wrong" else answer


def main() -> None:
    """Write the page."""
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
