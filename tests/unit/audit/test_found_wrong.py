"""Windows with a wrong result in one audit, which the next audit compares again."""

from dataclasses import replace
from typing import Any

import pytest

from cutover.definition import Audit
from cutover.definition.windows.window_fn import Interval
from cutover.lake.control.versions import Version
from cutover.reconcile.audit.window_sample import Population, _evaluate_comparison
from cutover.reconcile.result.finding import Cause, Difference, Finding, PolicyResult, Verdict, Windows
from cutover.reconcile.verdict.history import AuditState
from cutover.reconcile.verdict.statistics import plan_sample
from cutover.timestamps import format_micros
from tests.support.history.audits import make_audit

HOUR = 3_600_000_000
STARTS = tuple(n * HOUR for n in range(40))
DRAWN = tuple(Interval(start, start + HOUR) for start in STARTS)
POPULATION = Population(
    version=Version(pipeline="p", result_fingerprint="aa", lateness_fingerprint="b", number=0, uri="x"),
    range_start=0,
    range_end=STARTS[-1] + HOUR,
    windows=DRAWN,
    rows=dict.fromkeys(STARTS, 1),
    suspects=(),
    plan=plan_sample(Audit(), [1] * len(STARTS), len(STARTS)),
)


def differs(start: int, cause: str = "unexplained", **changes: Any) -> Difference:
    fields: dict[str, Any] = {"measure": "n", "kind": "changed", "streaming": 1, "batch": 2, "difference": -1}
    return Difference(window_start=format_micros(start), key={"k": "a"}, cause=cause, **fields | changes)


def find(
    *cells: Difference, rows: int, accepted: int = 0, population: Population = POPULATION
) -> tuple[AuditState, tuple[int, ...]]:
    policy = PolicyResult(max_late_share=1.0, max_unexplained=0, unexplained=rows, accepted=accepted)
    result = Finding(
        pipeline="p",
        verdict=Verdict.DIVERGED,
        exit_code=1,
        sentence="",
        policy=policy,
        windows=Windows(compared=len(STARTS)),
        causes={"unexplained": Cause(rows=rows)},
        differences=cells,
    )
    finding = _evaluate_comparison(
        make_audit("p", windows=STARTS, state=AuditState.NOT_COMPARABLE), population, DRAWN, result
    )
    return finding.state, finding.wrong


@pytest.mark.parametrize(
    ("cells", "rows", "wrong"),
    [
        pytest.param([differs(HOUR)], 1, (HOUR,), id="one window"),
        pytest.param([differs(HOUR, "late + unexplained")], 1, (HOUR,), id="beside another cause"),
        pytest.param([differs(start) for start in STARTS], 40, STARTS, id="forty windows"),
        pytest.param([differs(HOUR)], 2, STARTS, id="more than are listed"),
        pytest.param([differs(HOUR), differs(2 * HOUR, "late")], 1, (HOUR,), id="another one is explained"),
    ],
)
def test_every_wrong_window_is_scheduled_for_comparison(
    cells: list[Difference], rows: int, wrong: tuple[int, ...]
) -> None:
    assert find(*cells, rows=rows) == (AuditState.REGRESSION, wrong)


def test_an_accepted_row_makes_no_window_wrong() -> None:
    cells = (differs(HOUR), differs(2 * HOUR, accepted_by="known"))

    assert find(*cells, rows=2, accepted=1) == (AuditState.REGRESSION, (HOUR,))


@pytest.mark.parametrize(
    ("suspects", "state"), [(STARTS[:2], AuditState.AGREES), ((*STARTS[:2], 99 * HOUR), AuditState.NOT_COMPARABLE)]
)
def test_an_audit_agrees_only_if_it_compared_every_window_that_was_wrong(
    suspects: tuple[int, ...], state: AuditState
) -> None:
    assert find(rows=0, population=replace(POPULATION, suspects=suspects)) == (state, ())
