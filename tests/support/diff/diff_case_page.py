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
HEAD = f"""# Which tools are right about {len(CASES)} pairs of tables

The table below counts the right answers of four tools about pairs of small tables; the tables after it list each pair,
the answers and the reason. `make diff-cases` writes this page from [the cases](../tests/support/diff/diff_cases.py),
runs every tool, and fails if an answer differs from the one listed here. The right answers and their reasons were
written before any tool ran. A **bold** answer is wrong; `refused` is an error or exit code 2, which is neither right
nor wrong. For the rules by which Cutover compares, and how to change them, see [cutover diff](diff.md).

- **Cutover**: `cutover diff LEFT RIGHT --key k`. The numbers of missing, extra and changed rows are checked too.
- **DataComPy** 1.1.0: `PolarsCompare(...).matches()`, absolute and relative tolerance 0 or as the case requires. On
  polars, which keeps the types of Parquet; CSV is read by `polars.read_csv`.
- **EXCEPT ALL**: in DuckDB, in both directions, columns by name; equal if no row is left.
- **full join**: written by hand in DuckDB: `IS NOT DISTINCT FROM` on the key, `IS DISTINCT FROM` on every other column.

Tools that support tolerances and renamed columns get those of the case; only Cutover supports normalization. When all
tools ran for the first time, Cutover was wrong about the map in another order, which was then fixed. Some right answers
are our choice: noise of sums counts as equal, two empty tables are no proof, and a date is not a moment.

"""


def page() -> str:
    """Render the page: the number of right answers of each tool, and a table for each group of cases."""
    tools = ("Cutover", *PEERS)
    answers_by_case = [(case.truth, *case.peers) for case in CASES]
    lines = ["| tool | right | wrong | refused |", "| --- | --- | --- | --- |"]
    for number, tool in enumerate(tools):
        marks = [_judge(case, answers[number]) for case, answers in zip(CASES, answers_by_case, strict=True)]
        lines.append(f"| {tool} | {' | '.join(str(marks.count(mark)) for mark in ('right', 'wrong', 'refused'))} |")
    for title, cases in GROUPS.items():
        lines += ["", f"## {title}", f"| case | {' | '.join(tools)} | why |", f"| --- |{' --- |' * (len(tools) + 1)}"]
        for case in cases:
            cells = " | ".join(_cell(case, answer) for answer in (case.truth, *case.peers))
            lines.append(f"| {case.name} | {cells} | {case.reason} |")
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
