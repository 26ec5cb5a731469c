"""Every answer of docs/diff-cases.md: what Cutover says of each pair of tables, and what others say."""

from pathlib import Path

import pytest

from tests.support.diff.diff_case_page import page
from tests.support.diff.diff_cases import PEERS, REFUSED, Answer, Case
from tests.support.diff.diff_cases_of_types import CASES
from tests.support.diff.diff_peers import ASK, PEER_PACKAGES, WORDS, run_cutover, write

DOCS = Path(__file__).parents[4] / "docs"
CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def answer(tool: str, case: Case, folder: Path) -> Answer:
    try:
        return ASK[tool](case, write(case, folder))
    except Exception:  # noqa: BLE001 -- each tool has its own errors, and none of them is an answer
        return REFUSED


@pytest.mark.quick
@CASE
def test_cutover_is_right(case: Case, tmp_path: Path) -> None:
    result = run_cutover(case, write(case, tmp_path))

    outcome = (result.finding.rows.missing, result.finding.rows.extra, result.finding.rows.changed)
    assert (WORDS[result.finding.verdict], outcome) == (case.truth, case.rows)


@pytest.mark.parametrize("tool", PEERS)
@CASE
def test_peer_says_what_the_page_says(tool: str, case: Case, tmp_path: Path) -> None:
    if tool == "DataComPy" and not (PEER_PACKAGES / "datacompy").is_dir():
        pytest.skip("DataComPy is not here: `make diff-cases` fetches it")

    assert answer(tool, case, tmp_path) == case.peers[PEERS.index(tool)]


def test_names_are_unique_and_there_are_forty_cases_or_more() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 40


def test_page_says_what_the_cases_say() -> None:
    assert (DOCS / "diff-cases.md").read_text(encoding="utf-8") == page(), "run `make diff-cases`"
