"""A batch job that has read beyond the cut of a comparison raises an alert only if the next cut finds that, too."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import AHEAD_OF_CUT, Verdict
from cutover.reconcile.verdict import history
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.reconcile.watch.findings import list_comparison_problems
from cutover.settings import Settings
from tests.support.history.watch_facts import PIPELINE
from tests.unit.incident.test_similar import comparison


def not_comparable(epoch: int, code: str = AHEAD_OF_CUT, *, sequence: int = 0) -> RecordedComparison:
    breach = {"code": code, "runbook": "JobTableUnusable", "message": "Table of the batch job"}
    line = comparison(epoch, Verdict.NOT_COMPARABLE)
    return replace(line, sequence=epoch + sequence, result={"seal": {"breaches": [breach]}})


@pytest.mark.parametrize(
    ("lines", "fires"),
    [
        pytest.param([not_comparable(1)], False, id="once"),
        pytest.param([not_comparable(1), not_comparable(1, sequence=1)], False, id="twice at one cut"),
        pytest.param([not_comparable(1), comparison(2, Verdict.CONSISTENT), not_comparable(3)], False, id="compared"),
        pytest.param([not_comparable(1), not_comparable(2)], True, id="at two cuts"),
        pytest.param([not_comparable(1, "batch_job")], True, id="another reason"),
        pytest.param([not_comparable(1), not_comparable(2, "batch_job")], True, id="another reason since"),
    ],
)
def test_a_job_that_is_ahead_of_one_cut_is_silent(
    lines: Sequence[RecordedComparison], fires: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "read_current_lines", lambda _: (tuple(lines), 0))
    monkeypatch.setattr(history, "read_open_differences", lambda _: {})

    problems = list(list_comparison_problems(PipelineLake(Settings(home=tmp_path), PIPELINE)))

    assert [problem.runbook for problem in problems] == (["JobTableUnusable"] if fires else [])
