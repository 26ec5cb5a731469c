"""Next steps: runbooks filled with a comparison's pipeline, windows, keys and offsets."""

from dataclasses import replace

import pytest

from cutover.reconcile.report import page, steps
from cutover.reconcile.result.finding import PolicyResult, Verdict
from cutover.reconcile.result.parts import RunOfTrend
from cutover.reconcile.result.report import Report
from tests.support.history.reports import change_report
from tests.unit.report.test_page import HOSTILE, hostile
from tests.unit.report.test_tree import cell, made, record

TEXT = (
    "Take `cutover explain flights <window> <key>`, `cutover repair flights --window <start>`, "
    "`cutover batch flights --from ... --to ...`, start `flights_stream`."
)


def sales(**changes: object) -> Report:
    cells = [cell("2026-03-01T05:00:00Z", "a"), cell("2026-03-02T07:00:00Z", "b c", cause="unexplained")]
    records = [record("2026-03-02T07:00:00Z", "b c", offset) for offset in (9, 4)]
    records.append(record("2026-03-01T05:00:00Z", "a", 700))
    return change_report(made(cells, records), pipeline="sales", **changes)


def test_commands_name_this_comparison_and_its_unexplained_rows() -> None:
    assert steps.fill_runbook(TEXT, sales()) == (
        "Take `cutover explain sales 2026-03-02T07:00:00Z 'b c'`, "
        "`cutover repair sales --window 2026-03-02T07:00:00Z`, "
        "`cutover batch sales --from 2026-03-02 --to 2026-03-03`, start `sales_stream`."
    )


def test_commands_for_sessions_name_no_window() -> None:
    windows = replace(sales().finding.windows, merges=True)

    assert steps.fill_runbook(TEXT, sales(windows=windows)) == (
        "Take `cutover explain sales 2026-03-02T07:00:00Z 'b c'`, `cutover batch sales`, "
        "`cutover batch sales`, start `sales_stream`."
    )


def test_details_name_windows_and_offsets() -> None:
    detail_texts = {detail.name: detail.description for detail in steps.details(sales())}

    assert detail_texts["Windows"] == "1 window of those listed, 2026-03-02 07:00 UTC"
    assert detail_texts["Offsets"] == "partition 0: 4 to 9 (2 records)"
    assert detail_texts["Cut of flights"].startswith("0: 82,131, 1: ")


def test_example_remains_without_differences() -> None:
    bare = sales(differences=(), behind=())

    assert "<window> <key>" in steps.fill_runbook(TEXT, bare)
    assert [detail.name for detail in steps.details(bare)] == ["Pipeline", "Cut of flights"]


@pytest.mark.parametrize("text", [*HOSTILE, "a`b", "x|y", "[a](http://e)"])
def test_name_or_key_from_data_adds_no_markup_to_a_runbook(text: str) -> None:
    result = change_report(hostile(text), pipeline=text)
    plain = steps.html("DivergenceUnexplained")
    filled = steps.html("DivergenceUnexplained", lambda example_text: steps.fill_runbook(example_text, result))

    assert plain is not None
    assert filled is not None
    assert filled.count("<") == plain.count("<")


def test_page_names_the_next_steps() -> None:
    beyond = change_report(sales(), verdict=Verdict.DIVERGED, policy=PolicyResult(within=False))

    assert "This comparison requires no action." in page.render_page(sales())
    assert "cutover repair sales --window 2026-03-02T07:00:00Z" in page.render_page(beyond)


def run_of_trend(run_id: str, verdict: Verdict) -> RunOfTrend:
    return RunOfTrend(
        run_id=run_id,
        at="2026-02-01T05:00:00Z",
        epoch=7,
        verdict=verdict.value,
        within=False,
        windows=10,
        different=2,
        rows=3,
        unexplained=3,
        late_share=0.0,
    )


@pytest.mark.parametrize(
    ("earlier_verdicts", "incident_text"),
    [
        (("DIVERGED", "CONSISTENT"), "2026-02-01 05:00 UTC, DIVERGED at epoch 7, 3 rows in 2 windows (run r0)"),
        (("CONSISTENT", "DIVERGED"), None),  # that is this incident, not one before it
        (("CONSISTENT",), None),
    ],
)
def test_last_similar_incident_is_a_resolved_one(earlier_verdicts: tuple[str, ...], incident_text: str | None) -> None:
    trend = tuple(run_of_trend(f"r{n}", Verdict(name)) for n, name in enumerate(earlier_verdicts))
    now = change_report(sales(), verdict=Verdict.DIVERGED, policy=PolicyResult(within=False), trend=trend)

    assert {detail.name: detail.description for detail in steps.details(now)}.get(
        "Last similar incident"
    ) == incident_text
