"""A repair whose process is killed at each named step: readers see the old rows or the new ones, a rerun ends it."""

from datetime import UTC, datetime

import pytest

from cutover.batch.recompute import recompute_windows
from cutover.batch.repair.draft import find_waiting
from cutover.batch.repair.repair import make_draft, publish_draft, undo_repair
from cutover.lake.batch_runs import read_effective_runs
from tests.integration.batch.lab import BASE, HOUR, Lab
from tests.integration.batch.repair.repair_child import kill_at
from tests.integration.batch.repair.test_repair import AFTER, BEFORE, CLOCK, computed, read_served, versions_of, window

__all__ = ["computed"]
KILLED = -9
STEPS = ["repair.checked", "batch.indexed", "batch.written", "batch.committed"]


def draft_and_kill(lab: Lab, point: str) -> None:
    make_draft(lab.lake, window(0), clock=CLOCK)
    assert kill_at(lab, "publish", point) == KILLED
    assert read_served(lab) == (AFTER if point == "batch.committed" else BEFORE)


@pytest.mark.parametrize("point", ["batch.read", "repair.staged"])
def test_killed_while_it_is_drafted_no_table_has_changed_and_it_can_be_drafted_again(computed: Lab, point: str) -> None:
    tables = versions_of(computed)

    assert kill_at(computed, "draft", point, *window(0)[0]) == KILLED

    assert (versions_of(computed), read_served(computed)) == (tables, BEFORE)
    assert len(find_waiting(computed.lake, ()).ids) == (point == "repair.staged")
    make_draft(computed.lake, window(0), clock=CLOCK)
    publish_draft(computed.lake, None, clock=CLOCK)
    assert read_served(computed) == AFTER


@pytest.mark.parametrize("point", STEPS)
def test_killed_while_it_is_published_a_rerun_finishes(computed: Lab, point: str) -> None:
    draft_and_kill(computed, point)
    (draft,) = find_waiting(computed.lake, ()).readable.values()

    publish_draft(computed.lake, draft.repair_id, clock=CLOCK)

    assert read_served(computed) == AFTER
    assert [run.run_id for run in read_effective_runs(computed.lake)][1:] == [draft.repair_id]


@pytest.mark.parametrize("point", STEPS)
def test_killed_while_it_is_published_it_can_be_taken_back(computed: Lab, point: str) -> None:
    draft_and_kill(computed, point)
    (draft,) = find_waiting(computed.lake, ()).readable.values()

    undo_repair(computed.lake, draft.repair_id, clock=CLOCK)

    assert read_served(computed) == BEFORE
    hours = computed.table(read_effective_runs(computed.lake)[-1], "carrier", "flights", "delay")
    assert sorted(hours) == sorted(BEFORE)


@pytest.mark.parametrize("point", STEPS[:3])
def test_rows_of_a_killed_repair_never_come_out_with_another_run(computed: Lab, point: str) -> None:
    draft_and_kill(computed, point)
    start, end = (datetime.fromtimestamp(BASE + hour * HOUR, UTC) for hour in (2, 3))

    other = recompute_windows(computed.lake, start=start, end=end)

    assert other is not None
    assert other.computed == window(2)
    assert read_served(computed) == BEFORE


@pytest.mark.parametrize("point", STEPS[1:])
def test_killed_while_it_is_taken_back_a_rerun_finishes(computed: Lab, point: str) -> None:
    make_draft(computed.lake, window(0), clock=CLOCK)
    repair_run, _ = publish_draft(computed.lake, None, clock=CLOCK)
    assert kill_at(computed, "undo", point) == KILLED
    assert read_served(computed) == (BEFORE if point == "batch.committed" else AFTER)

    undo_repair(computed.lake, repair_run.run_id, clock=CLOCK)

    assert read_served(computed) == BEFORE
