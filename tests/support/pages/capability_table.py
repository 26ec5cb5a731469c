"""Write the tables of capabilities: of runners, from the tests that passed, and of the jobs that can be followed.

`python -m tests.support.pages.capability_table FOUND PAGE`.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.pages.capabilities import RUNNERS
from tests.support.pages.followed_kinds import render_followed_kinds

HEAD = """\
# What each runner can do

The table shows which windows, triggers, measures and deliveries each runner supports: `reference` is plain Python
without an engine, `streaming` the driver over a real topic and a real epoch log, `batch` the recomputation by Spark. A
cell lists the tests that show the feature on the runner, by their numbers below. `make capabilities` writes this page
from tests that passed; a cell without such a test is empty, even if the code supports the feature.

Triggers and panes have no cell under `batch`, because they have no meaning there: a trigger determines when a result is
emitted before all input has arrived, and batch reads everything up to its cut first. Each window therefore has one pane
that is neither early nor late, nothing is retracted, and its result is the last accumulated pane of a stream.

"""


def page(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the page: a row for each feature, a column for each runner."""
    tests: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        tests.setdefault((row["feature"], row["runner"]), set()).add(_short(row["test"]))
    files = sorted({test for names in tests.values() for test in names})
    numbers = {test: str(number) for number, test in enumerate(files, start=1)}
    lines = [f"| feature | {' | '.join(RUNNERS)} |", f"| --- |{' --- |' * len(RUNNERS)}"]
    for feature in sorted({feature for feature, _ in tests}):
        cells = (_cell(tests.get((feature, runner), set()), numbers) for runner in RUNNERS)
        lines.append(f"| {feature} | {' | '.join(cells)} |")
    numbered_tests = [f"{numbers[test]}. `{test}`" for test in files]
    return HEAD + "\n".join(lines) + "\n\n" + "\n".join(numbered_tests) + "\n\n" + render_followed_kinds()


def _cell(tests: set[str], numbers: Mapping[str, str]) -> str:
    return ", ".join(sorted((numbers[test] for test in tests), key=int))


def _short(test: str) -> str:
    return test.partition("[")[0]


def main() -> None:
    """Read the noted features and write the page."""
    source, target = map(Path, sys.argv[1:])
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    target.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
