"""Lifecycle of a difference: opened and resolved by runs, with counts, and the row for those beyond the list."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cutover.definition import Count, Fixed, Pipeline, Policy, Topic
from cutover.definition.windows.window_fn import FOREVER
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.journal_rows import DifferenceEvent
from cutover.reconcile.report import sections
from cutover.reconcile.result.finding import Cause, Difference, Finding, Seal, Verdict, Windows
from cutover.reconcile.result.parts import DifferenceLife
from cutover.reconcile.result.report import ComparisonOutcome
from cutover.reconcile.verdict import history, lifecycle
from cutover.reconcile.verdict.history import HistoryEntry
from cutover.reconcile.verdict.lifecycle import BEYOND, DifferenceState, OpenDifference
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.settings import Settings
from tests.support.history.journal_rows import make_row
from tests.unit.reconcile.verdict.kept.test_history_lines import NOW, line

FIRST, SECOND = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
HOUR = 3_600_000_000
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
POSITIONS = {f"r{n}": (True, 0, n, n) for n in range(9)}


def cell(shop: str, window: str = FIRST, **changes: Any) -> Difference:
    difference = Difference(
        window_start=window,
        key={"shop": shop},
        measure="sales",
        kind="changed",
        streaming=1,
        batch=2,
        difference=-1,
        cause="unexplained",
    )
    return replace(difference, **changes)


def comparison(*cells: Difference, unexplained: int | None = None, **changes: Any) -> Finding:
    rows = len({str(cell.key) + str(cell.window_start) for cell in cells if "unexplained" in cell.cause})
    finding = Finding(
        pipeline="sales",
        verdict=Verdict.DIVERGED,
        exit_code=1,
        sentence="They differ.",
        seal=Seal(epoch=5, stream_version=0, watermark="2026-01-01T09:00:00Z"),
        windows=Windows(first=FIRST),
        causes={"unexplained": Cause(rows=rows if unexplained is None else unexplained)},
        differences=cells,
    )
    return replace(finding, **changes)


def make_recorded(finding: Finding, **changes: Any) -> RecordedComparison:
    return line(3, said={"causes": {"unexplained": {"rows": finding.causes["unexplained"].rows}}}, **changes)


def make_open_differences(
    *shops: str, kind: str = "changed", window: str = FIRST
) -> dict[tuple[str, str], OpenDifference]:
    """Build differences of these shops that an earlier run opened."""
    keys = [json.dumps({"shop": shop}) if shop else "{}" for shop in shops]
    return {
        (window, key): OpenDifference(
            window_start=window,
            key=key,
            kind=kind,
            first_seen=NOW,
            first_run="r0",
            last_seen=NOW,
            runs=1,
            run_id="r0",
        )
        for key in keys
    }


def states(rows: list[DifferenceEvent]) -> list[tuple[str, str, str]]:
    return [(row.key, row.kind, row.state) for row in rows]


A, B = '{"shop": "a"}', '{"shop": "b"}'


def test_a_run_opens_unexplained_differences_and_resolves_missing_ones() -> None:
    finding = comparison(
        cell("a"), cell("b", accepted_by="backfill", cause="late + unexplained"), cell("c", cause="late")
    )
    recorded_comparison = make_recorded(finding)

    rows = lifecycle.make_rows(finding, recorded_comparison, make_open_differences("a", "gone"), [], [])

    assert states(rows) == [
        (A, "changed", "open"),
        (B, "changed", "accepted"),
        ('{"shop": "gone"}', "changed", "resolved"),
    ]
    assert rows[0] == DifferenceEvent(
        pipeline="sales",
        result_fingerprint="f",
        run_id="r3",
        at=recorded_comparison.last_recorded,
        window_start=datetime(2026, 1, 1, tzinfo=UTC),
        key=A,
        kind="changed",
        cause="unexplained",
        state="open",
        detail='{"batch": 2, "measure": "sales", "streaming": 1}',
    )
    detail = {"accepted_by": "backfill", "measure": "sales", "streaming": 1, "batch": 2}
    assert json.loads(rows[1].detail or "") == detail
    assert (rows[1].cause, rows[2].cause, rows[2].detail) == ("late + unexplained", "unexplained", None)


def test_a_run_changes_no_window_that_a_newer_one_compared() -> None:
    finding = comparison(cell("a"), cell("a", SECOND))
    newer = [line(8, 9, skipped_windows=f"[[{START}, {START + HOUR}]]"), line(9, 9, said={"to": "x"})]

    rows = lifecycle.make_rows(finding, make_recorded(finding), {}, newer, [])

    assert [row.window_start for row in rows] == [datetime(2026, 1, 1, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("unexplained", "changes", "expected"),
    [
        pytest.param(1, {}, ["resolved"], id="judged away"),
        pytest.param(2, {}, [], id="perhaps among those that the list had no room for"),
        pytest.param(1, {"skipped_windows": f"[[{START}, {START + 1}]]"}, [], id="its window was left out"),
        pytest.param(1, {"verdict": "NOT_COMPARABLE"}, [], id="nothing was judged"),
    ],
)
def test_a_difference_ends_if_its_window_was_compared_and_the_list_is_complete(
    unexplained: int, changes: dict[str, Any], expected: list[str]
) -> None:
    finding = comparison(cell("a"), unexplained=unexplained)

    rows = lifecycle.make_rows(finding, make_recorded(finding, **changes), make_open_differences("gone"), [], [])

    assert [row.state for row in rows if "gone" in row.key] == expected


@pytest.mark.parametrize(
    ("unexplained", "first_window", "expected"),
    [(1, FIRST, []), (2, FIRST, [("{}", BEYOND, "open")]), (2, None, [])],
)
def test_unlisted_rows_are_one_difference_without_a_key_in_the_first_window(
    unexplained: int, first_window: str | None, expected: list[tuple[str, str, str]]
) -> None:
    finding = comparison(cell("a", SECOND), unexplained=unexplained, windows=Windows(first=first_window))

    rows = lifecycle.make_rows(finding, make_recorded(finding), {}, [], [])

    assert states(rows) == [(A, "changed", "open"), *expected]
    assert [row.window_start.hour for row in rows[1:]] == [0] * len(expected)


@pytest.mark.parametrize(
    ("open_to_it", "not_compared", "expected"),
    [
        pytest.param("[]", "[]", ["resolved"], id="all windows were closed to both"),
        pytest.param("[]", f"[[{START + HOUR}, {FOREVER}]]", [], id="some are open now"),
        pytest.param(f"[[{START + HOUR}, {FOREVER}]]", "[]", ["resolved"], id="all are closed now"),
        pytest.param(
            f"[[{START + HOUR}, {FOREVER}]]", f"[[{START + HOUR}, {FOREVER}]]", ["resolved"], id="the same are open"
        ),
        pytest.param(f"[[{START + HOUR}, {FOREVER}]]", f"[[{START}, {FOREVER}]]", [], id="more are open now"),
        pytest.param(
            f"[[{START + HOUR}, {FOREVER}]]",
            f"[[{START}, {START + 1}], [{START + 2 * HOUR}, {FOREVER}]]",
            [],
            id="one that was closed is not judged",
        ),
    ],
)
def test_unlisted_differences_end_once_every_closed_window_is_compared(
    open_to_it: str, not_compared: str, expected: list[str]
) -> None:
    finding, earlier_line = comparison(), line(1, skipped_windows=open_to_it)
    beyond = {
        place: replace(difference, run_id=earlier_line.run_id)
        for place, difference in make_open_differences("", kind=BEYOND).items()
    }

    rows = lifecycle.make_rows(
        finding, make_recorded(finding, skipped_windows=not_compared), beyond, [], [earlier_line]
    )

    assert [row.state for row in rows] == expected


def make_event(run: int, state: str = "open", **changes: Any) -> DifferenceEvent:
    place = {"window_start": datetime(2026, 1, 1, tzinfo=UTC), "key": A, "kind": "changed", "detail": None}
    fields = place | {"run_id": f"r{run}", "state": state, "at": NOW + timedelta(minutes=run)} | changes
    return make_row(DifferenceEvent, **fields)


def test_a_difference_keeps_its_first_sight_and_counts_its_runs_and_how_often_it_came_back() -> None:
    by_rule = {"detail": json.dumps({"accepted_by": "backfill"}), "kind": "missing"}
    rows = [
        make_event(1),
        make_event(2),
        make_event(3, "resolved"),
        make_event(4),
        make_event(5, "closed"),
        make_event(6, "accepted", **by_rule),
    ]

    (difference,) = lifecycle.fold_differences(rows, POSITIONS).values()

    assert difference == OpenDifference(
        window_start=FIRST,
        key=A,
        kind="missing",
        first_seen=NOW + timedelta(minutes=1),
        first_run="r1",
        last_seen=NOW + timedelta(minutes=6),
        runs=4,
        run_id="r6",
        state=DifferenceState.ACCEPTED,
        rule="backfill",
        returned=2,
    )
    assert lifecycle.fold_differences([make_event(3, "resolved"), make_event(4)], POSITIONS)[FIRST, A].returned == 0


def test_a_key_is_read_in_the_definitions_order_and_columns_that_it_lacks_are_left_out() -> None:
    difference = replace(next(iter(make_open_differences("a").values())), key='{"desk": 1, "shop": "a"}')

    assert list(lifecycle.read_key(difference, ("shop", "desk", "till")).items()) == [("shop", "a"), ("desk", 1)]


SALES = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="shop string, at timestamp NOT NULL", event_time="at"),
    key=("shop",),
    window=Fixed(hours=1),
    measures={"sales": Count()},
    policy=Policy(settles_after="8 hours"),
)


def place(settings: Settings, finding: Finding, run_id: str = "now") -> HistoryEntry:
    outcome = ComparisonOutcome(finding=finding)
    return history.find_entry(settings, outcome, run_id=run_id, fingerprint="f", version=0, at=NOW)


def test_a_report_dates_each_listed_unexplained_row(settings: Settings) -> None:
    earlier = comparison(cell("a"))
    history.record_comparison(settings, ComparisonOutcome(finding=earlier), place(settings, earlier, "earlier"), None)
    finding = comparison(
        cell("a"), cell("a", measure="other"), cell("b", "2026-01-01T02:00:00Z"), cell("c", cause="late")
    )

    lives = sections.list_lives(PipelineLake(settings, SALES), finding, place(settings, finding))

    life_fields: dict[str, Any] = {"rule": None, "returned": 0, "first_seen": "2026-01-02T00:00:00Z"}
    assert lives == (
        DifferenceLife(window_start=FIRST, key={"shop": "a"}, state="open", first_run="earlier", runs=2, **life_fields),
        DifferenceLife(
            window_start="2026-01-01T02:00:00Z",
            key={"shop": "b"},
            state="pending",
            first_run="now",
            runs=1,
            **life_fields,
        ),
    )


def test_no_row_has_a_history_without_comparison_or_for_another_version(settings: Settings) -> None:
    finding = comparison(cell("a"))
    broken = replace(finding, seal=replace(finding.seal, holds=False))
    other_version = settings.model_copy(update={"stream_version": 0})

    lake = PipelineLake(settings, SALES)
    assert sections.list_lives(lake, broken, place(settings, broken)) == ()
    assert sections.list_lives(PipelineLake(other_version, SALES), finding, place(settings, finding)) == ()
    assert sections.list_lives(lake, comparison(), place(settings, comparison())) == ()
