"""Order of recorded comparisons: by cut, not by clock; only a newer complete one clears a divergence."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.lake.journal_rows import ComparisonRow
from cutover.reconcile.journal_rows import DifferenceEvent
from cutover.reconcile.verdict import lifecycle, records
from cutover.reconcile.verdict.history import HistoryEntry
from cutover.reconcile.verdict.records import RecordedComparison
from cutover.timestamps import parse_micros
from tests.support.history.journal_rows import make_row

AT = datetime(2026, 11, 22, tzinfo=UTC)
BROKEN = {"seal": {"breaches": [{"code": "folded", "message": "m"}]}}
EMPTY = {"seal": {"breaches": [{"code": "nothing", "message": "m"}]}}
RANGE = {"from": "2026-01-01T00:00:00Z"}
_numbers = count()


def row(epoch: int | None, verdict: str = "CONSISTENT", **changes: Any) -> ComparisonRow:
    """Build a row; `said` adds fields to its result."""
    number = next(_numbers)
    result_fields: dict[str, Any] = {"windows": {"first": "2026-01-01T00:00:00Z", "last": "2026-01-01T09:00:00Z"}}
    result_fields |= BROKEN if verdict == "NOT_COMPARABLE" else {}
    result_fields |= {"causes": {"unexplained": {"rows": 1}}} if verdict == "DIVERGED" else {}
    fields = {
        "run_id": f"r{number}",
        "comparison_key": "k",
        "content_digest": "c",
        "at": AT + timedelta(minutes=number),
        "sequence": number,
        "epoch": epoch,
        "result_fingerprint": "aa",
        "stream_version": 0,
        "verdict": verdict,
        "exit_code": 0,
        "result": json.dumps(result_fields | changes.pop("said", {})),
    }
    return make_row(ComparisonRow, **fields | changes)


def read_verdicts(rows: list[ComparisonRow]) -> tuple[str | None, list[str]]:
    """Read the verdict of the current comparison, and the verdicts of open divergences."""
    lines = records.of_definition(records.fold_lines(rows), "aa")
    newest = records.find_current_line(lines, 0)
    return None if newest is None else str(newest.verdict), [
        str(line.verdict) for line in records.list_standing(lines, 0)
    ]


D, C, N = "DIVERGED", "CONSISTENT", "NOT_COMPARABLE"
CASES = [
    pytest.param([row(5, D), row(0)], D, [D], id="older cut"),
    pytest.param([row(5, D), row(5, said=RANGE)], D, [D], id="range"),
    pytest.param([row(5, D), row(9, said=RANGE)], D, [D], id="range at a newer cut"),
    pytest.param([row(5, D), row(5)], C, [], id="same cut, whole"),
    pytest.param([row(5, D), row(6, "EXPLAINED")], "EXPLAINED", [], id="newer cut"),
    pytest.param([row(5), row(3, D)], C, [], id="bad word on an older cut"),
    pytest.param([row(5), row(5, D, said=RANGE)], C, [D], id="bad word of a range at the same cut"),
    pytest.param([row(5, D), row(6, N)], N, [D, N], id="could not compare since"),
    pytest.param([row(5, N), row(4)], N, [N], id="could not compare, then an older cut"),
    pytest.param([row(5, N), row(6, D)], D, [D], id="compared again, and diverged"),
    pytest.param([row(5), row(None, N)], N, [N], id="without a cut it is at the newest one known"),
    pytest.param([row(5), row(None, N), row(3)], N, [N], id="and an older one says nothing against it"),
    pytest.param([row(5), row(None, N), row(5)], C, [], id="the same one does"),
    pytest.param([row(5, D, stream_version=0), row(9, stream_version=1)], D, [D], id="a version that does not serve"),
    pytest.param([row(5, D, stream_version=1), row(2, stream_version=0)], C, [], id="back to an older version"),
    pytest.param(
        [row(5), row(5, N, said=RANGE | {"seal": {"breaches": [{"code": "nothing"}]}})], C, [], id="empty range"
    ),
]


@pytest.mark.parametrize(("rows", "speaks", "against"), CASES)
def test_current_comparison_and_open_divergences(rows: list[ComparisonRow], speaks: str, against: list[str]) -> None:
    assert read_verdicts(rows) == (speaks, against)


@given(st.permutations([(0, C), (1, C), (2, "EXPLAINED"), (3, D), (4, D)]))
def test_older_comparisons_never_outweigh_the_newest_cut(order: list[tuple[int, str]]) -> None:
    speaks, against = read_verdicts([row(epoch, verdict) for epoch, verdict in order])

    assert (speaks, D in against) == (D, True)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([C, D]), st.booleans()), min_size=1))
def test_a_divergence_remains_until_a_later_complete_comparison_agrees(
    comparisons: list[tuple[int, str, bool]],
) -> None:
    rows = [row(epoch, verdict, said={} if covers_all else RANGE) for epoch, verdict, covers_all in comparisons]
    _, against = read_verdicts(rows)

    over = [
        any(covers_all and verdict == C and (epoch > comparisons[i][0] or (epoch == comparisons[i][0] and later > i))
            for later, (epoch, verdict, covers_all) in enumerate(comparisons))
        for i in range(len(comparisons))
    ]  # fmt: skip
    assert len(against) == sum(verdict == D and not over[i] for i, (_, verdict, _) in enumerate(comparisons))


def test_rows_of_one_run_are_one_repeated_line() -> None:
    (line,) = records.fold_lines([row(5, run_id="r"), row(5, run_id="r")])

    assert (line.times, line.last_recorded - line.first_recorded) == (2, timedelta(minutes=1))


@pytest.mark.parametrize(("version", "epoch"), [(None, 9), (0, 9), (1, 3), (2, -1)])
def test_a_run_without_a_cut_is_placed_at_the_latest_known_cut(version: int | None, epoch: int) -> None:
    *_, line = records.fold_lines(
        [
            row(9, stream_version=0),
            row(4, stream_version=0),
            row(3, stream_version=1),
            row(None, N, stream_version=version),
        ]
    )

    assert (line.epoch, line.has_cut) == (epoch, False)


def test_a_run_that_compared_nothing_represents_no_cut() -> None:
    lines = records.fold_lines([row(5, D, run_id="five"), row(None, N, said=RANGE)])
    entry = HistoryEntry(pipeline="p", turn=2, lines=lines[:1], comparison=lines[1], version=0)

    assert entry.scope_note == "Nothing was compared. The current comparison of `p` is run five at epoch 5: DIVERGED."


PLACE = {"window_start": datetime(2026, 1, 1, 3, tzinfo=UTC), "key": "{}", "kind": "changed"}


def state(run: str, state_: str) -> DifferenceEvent:
    return make_row(DifferenceEvent, **PLACE, run_id=run, state=state_, at=AT)


def count_open(lines: tuple[RecordedComparison, ...], rows: list[DifferenceEvent]) -> int:
    return len(
        lifecycle.fold_differences(rows, {line.run_id: records.compute_line_position(line, 0) for line in lines})
    )


def test_a_difference_is_open_by_the_latest_cut_that_compared_it() -> None:
    lines = records.fold_lines([row(5, D, run_id="new"), row(3, run_id="old")])

    assert count_open(lines, [state("new", "open"), state("old", "resolved")]) == 1


def test_rows_of_a_run_that_was_never_recorded_open_nothing() -> None:
    assert count_open((), [state("killed", "open")]) == 0


@given(st.permutations([("seen", "open"), ("seen", "closed"), ("older", "accepted")]))
def test_a_closed_difference_stays_closed_in_any_row_order(order: list[tuple[str, str]]) -> None:
    lines = records.fold_lines([row(3, D, run_id="older"), row(5, D, run_id="seen")])

    assert count_open(lines, [state(*event) for event in order]) == 0


@given(st.permutations([("seen", "open"), ("seen", "closed"), ("newer", "accepted")]))
def test_a_later_run_reopens_a_closed_difference_in_any_row_order(
    order: list[tuple[str, str]],
) -> None:
    lines = records.fold_lines([row(5, D, run_id="seen"), row(6, D, run_id="newer")])
    positions = {line.run_id: records.compute_line_position(line, 0) for line in lines}

    (back,) = lifecycle.fold_differences([state(*event) for event in order], positions).values()

    assert (back.returned, back.runs, back.state) == (1, 2, lifecycle.DifferenceState.ACCEPTED)


@pytest.mark.parametrize("delay", [timedelta(minutes=1), -timedelta(days=2)], ids=["clock goes on", "clock goes back"])
def test_the_newest_state_of_a_repeated_run_counts(delay: timedelta) -> None:
    (line,) = records.fold_lines([row(5, D, run_id="seen")])
    later = replace(state("seen", "accepted"), at=AT + delay)

    (difference,) = lifecycle.fold_differences(
        [state("seen", "open"), later], {"seen": records.compute_line_position(line, 0)}
    ).values()

    assert difference.state is lifecycle.DifferenceState.ACCEPTED


HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("state_", "watermark", "expected"),
    [
        pytest.param("open", "2026-01-01T04:00:00Z", "open", id="old enough"),  # its window began at 03:00
        pytest.param("open", "2026-01-01T03:59:59Z", "pending", id="young"),
        pytest.param("accepted", "2026-01-01T03:59:59Z", "accepted", id="accepted"),
        pytest.param("open", None, "open", id="no cut"),
    ],
)
def test_a_difference_is_pending_while_its_window_settles(state_: str, watermark: str | None, expected: str) -> None:
    (line,) = records.fold_lines([row(5, D, run_id="seen", said={"seal": {"watermark": watermark}})])
    differences = lifecycle.fold_differences([state("seen", state_)], {"seen": records.compute_line_position(line, 0)})

    (difference,) = lifecycle.mark_pending(differences, line, HOUR).values()

    assert difference.state == expected
    assert lifecycle.mark_pending(differences, None, HOUR) == differences


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, True, id="inside"),
        pytest.param({"said": RANGE}, False, id="of a range"),
        pytest.param({"skipped_windows": f"[[{parse_micros('2026-01-01T02:00:00Z')}, {2**62}]]"}, False, id="left out"),
    ],
)
def test_a_window_is_compared_by_complete_comparisons_that_include_it(changes: dict[str, Any], expected: bool) -> None:
    (line,) = records.fold_lines([row(5, **changes)])

    assert line.has_judged(parse_micros("2026-01-01T03:00:00Z")) is expected
