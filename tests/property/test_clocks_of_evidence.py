"""Runs and comparisons say the same with the clocks of any hosts as with one clock: order is by sequence.

A history is drawn, then recorded twice: with ascending times, and with any. One host alone that is wrong now and then
changes no age, so the gate counts the same runs, too. The first run is the exception: without a predecessor, it may
be as old as a clock far behind says, so it does not count.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.lake import batch_runs
from cutover.lake.batch_runs import BatchRun
from cutover.lake.control.versions import Version
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import find_latest_run, list_blocks, select_consecutive_runs
from cutover.reconcile.gate.evidence import EvidenceInputs
from cutover.reconcile.verdict import lifecycle, records
from cutover.recorded_times import CLOCKS_APART
from tests.unit.gate.test_evidence import row as gate_row
from tests.unit.reconcile.attribution.indexed import make_run
from tests.unit.reconcile.test_recorded import row, state

pytestmark = pytest.mark.quick

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
VERSION = Version(pipeline="flights", result_fingerprint="aa", lateness_fingerprint="bb", number=1, uri="x")
VERDICTS = st.sampled_from(["CONSISTENT", "DIVERGED", "NOT_COMPARABLE"])
HISTORIES = st.lists(st.tuples(st.integers(0, 4), VERDICTS, st.integers(0, 3), st.booleans()), max_size=12)
ANY_TIME = st.integers(-30_000, 30_000).map(lambda hours: NOON + hours * HOUR)


def summarize_history(history: Sequence[tuple[int, str, int, bool]], times: Sequence[datetime]) -> list[Any]:
    """Return what stands of a history, and which differences are open, with these times."""
    rows = [
        row(epoch, verdict, run_id=f"r{name}", sequence=number, at=at)
        for number, ((epoch, verdict, name, _), at) in enumerate(zip(history, times, strict=True))
    ]
    lines = records.of_definition(records.fold_lines(rows), "aa")
    positions = {line.run_id: records.compute_line_position(line, 0) for line in lines}
    difference_events = [
        replace(state(f"r{name}", "open" if is_open else "resolved"), at=at)
        for (_, _, name, is_open), at in zip(history, times, strict=True)
    ]
    present = records.find_current_line(lines, 0)
    opened = lifecycle.fold_differences(difference_events, positions)
    return [
        None if present is None else present.run_id,
        [line.run_id for line in records.sort_by_position(lines, 0)],
        [line.run_id for line in records.list_standing(lines, 0)],
        [(place, difference.run_id, difference.runs, difference.returned) for place, difference in opened.items()],
    ]


@given(HISTORIES, st.data())
def test_what_stands_of_a_history_does_not_depend_on_its_times(
    history: list[tuple[int, str, int, bool]], data: st.DataObject
) -> None:
    any_times = data.draw(st.lists(ANY_TIME, min_size=len(history), max_size=len(history)))

    assert summarize_history(history, any_times) == summarize_history(
        history, [NOON + number * HOUR for number in range(len(history))]
    )


@given(st.lists(ANY_TIME.map(str), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_runs_are_in_the_order_of_their_sequence_however_their_rows_lie(ends: list[str], rng: random.Random) -> None:
    runs = [replace(make_run(f"r{number}"), sequence=number, finished=end) for number, end in enumerate(ends)]
    shuffled: list[BatchRun] = rng.sample(runs, len(runs))

    assert batch_runs.sort_runs(shuffled) == runs


@given(
    st.lists(st.booleans(), min_size=6, max_size=24),
    st.data(),
    st.sampled_from([-9_999, -49, -1, 1, 49, 9_999]).map(lambda hours: hours * HOUR),
)
def test_the_gate_counts_the_same_runs_where_one_clock_is_wrong_once(
    agreements: list[bool], data: st.DataObject, off: timedelta
) -> None:
    wrong = data.draw(st.integers(0, len(agreements) - 1))
    now = NOON + len(agreements) * HOUR

    def count_runs(*, off: timedelta) -> tuple[list[str], list[str], tuple[bool, ...], str]:
        rows = [
            gate_row(
                number,
                run_id=f"r{number}",
                sequence=number,
                at=NOON + number * HOUR + off * (number == wrong),
                **({} if good else {"verdict": "DIVERGED", "exit_code": 1}),
            )
            for number, good in enumerate(agreements)
        ]
        epochs = {number: NOON + number * HOUR for number in range(len(agreements))}
        runs = evidence.list_runs(records.fold_lines(rows), VERSION, inputs=EvidenceInputs(epochs=epochs))
        evidence_run = find_latest_run(runs)
        assert evidence_run is not None
        return (
            [run.run_id for run in runs],
            [run.run_id for run in select_consecutive_runs(runs, now)],
            list_blocks(runs),
            evidence_run.run_id,
        )

    one_clock = count_runs(off=timedelta(0))
    with_wrong = count_runs(off=off)

    first_is_old = wrong == 0 and off < -CLOCKS_APART
    assert with_wrong[0] == one_clock[0]
    assert with_wrong[2:] == one_clock[2:]
    assert with_wrong[1] == [run_id for run_id in one_clock[1] if not (first_is_old and run_id == "r0")]
