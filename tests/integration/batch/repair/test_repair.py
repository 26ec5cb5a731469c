"""Repairs on a real log and lake: previewed, published, rejected, undone."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cutover.batch.context import writer_lock
from cutover.batch.recompute import recompute_windows
from cutover.batch.repair.checks import require_windows
from cutover.batch.repair.draft import RECORD, draft_folder, find_waiting
from cutover.batch.repair.repair import list_repairs, make_draft, publish_draft, undo_repair
from cutover.clock import SystemClock
from cutover.definition import Sessions
from cutover.errors import DefinitionError, LakeError, LogError
from cutover.lake.batch_runs import Range, read_effective_runs
from cutover.lake.control import pins, versions
from cutover.lake.serving import views
from cutover.lake.serving.vacuum import delete_unlisted_files
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.settings import LineageSettings
from tests.integration.batch.lab import BASE, HOUR, PARTITIONS, Lab
from tests.integration.streaming.log.loss import cut_away, recreate
from tests.support.history.journal_rows import record_stage

CLOCK = SystemClock()
ROWS = ((0, 10, "AA", 5), (1, 20, "UA", 7), (1, 3_700, "AA", 1), (0, 7_300, "AA", 2))


def window(*hours: int) -> tuple[Range, ...]:
    return tuple(((BASE + hour * HOUR) * 1_000_000, (BASE + (hour + 1) * HOUR) * 1_000_000) for hour in hours)


def read_served(lab: Lab, columns: str = "carrier, flights, delay") -> list[tuple[Any, ...]]:
    with views.open_views(lab.lake) as connection:
        query = f"SELECT (epoch(window_start)::BIGINT - {BASE}) // {HOUR}, {columns} FROM serving ORDER BY ALL"  # noqa: S608 -- ours
        return connection.execute(query).fetchall()


def versions_of(lab: Lab) -> list[int]:
    names = ("batch", "batch_index", "batch_ledger")
    return [int(delta.open_table(lab.lake.batch_uri(name)).version()) for name in names]  # type: ignore[arg-type]  # of these names


def late(lab: Lab, *rows: tuple[int, int, str | None, int | None]) -> None:
    """Records of windows that batch has computed, and an epoch behind them."""
    lab.send(*rows)
    lab.commit_epoch(watermark=10_800)


@pytest.fixture
def computed(lab: Lab) -> Lab:
    """Three hours that batch has computed, then a late record in each of the first two."""
    lab.send(*ROWS)
    lab.commit_epoch(watermark=10_800)
    assert recompute_windows(lab.lake) is not None
    late(lab, (0, 30, "AA", 100), (1, 3_800, None, 9))
    return lab


BEFORE: Sequence[tuple[Any, ...]] = [(0, "AA", 1, 5), (0, "UA", 1, 7), (1, "AA", 1, 1), (2, "AA", 1, 2)]
AFTER: Sequence[tuple[Any, ...]] = [(0, "AA", 2, 105), (0, "UA", 1, 7), (1, "AA", 1, 1), (2, "AA", 1, 2)]


def test_a_dry_run_says_what_would_change_and_changes_nothing(computed: Lab) -> None:
    tables, served_before = versions_of(computed), read_served(computed)

    draft = make_draft(computed.lake, window(0), clock=CLOCK)

    assert draft.draft is not None
    assert draft.effect is not None
    assert draft.draft.counts["served"] == {"changed": 1, "same": 1}
    (change,) = draft.effect.changes.to_pylist()
    assert (change["carrier"], change["old_0"], change["new_0"]) == ("AA", 1, 2)
    assert (versions_of(computed), read_served(computed)) == (tables, served_before)
    assert served_before == BEFORE


@pytest.mark.quick
def test_a_published_repair_changes_its_windows_alone_and_keeps_what_was_served(computed: Lab) -> None:
    first_batch_run = read_effective_runs(computed.lake)[-1]
    make_draft(computed.lake, window(0), clock=CLOCK)

    repair_run, was_before = publish_draft(computed.lake, None, reason="late", clock=CLOCK)
    second_repair_run, was_then = publish_draft(computed.lake, repair_run.run_id, clock=CLOCK)

    assert read_served(computed) == AFTER
    assert (was_before, was_then, second_repair_run) == (False, True, repair_run)
    assert repair_run.computed == window(0)
    assert repair_run.stale == window(1)  # dirty too, and not named
    assert repair_run.repair is not None
    assert (repair_run.repair.batch_run, repair_run.repair.counts) == (
        first_batch_run.run_id,
        {"changed": 1, "same": 1},
    )
    assert repair_run.repair.served_from == first_batch_run.finished


def test_an_undone_repair_leaves_what_was_there_and_the_next_run_computes_what_is_dirty(
    computed: Lab, tmp_path: Path
) -> None:
    lineage = LineageSettings(file=tmp_path / "told.jsonl")
    heard = computed.settings.model_copy(update={"lineage": lineage})
    make_draft(computed.lake, window(0), clock=CLOCK)
    lake = PipelineLake(heard, computed.pipeline)
    repair_run, _ = publish_draft(lake, None, clock=CLOCK)

    back, undone, _ = undo_repair(lake, None, reason="no", clock=CLOCK)

    events = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["job"]["name"] for event in events] == [f"{computed.pipeline.name}.repair"] * len(events)
    ended = [event["run"]["facets"]["cutover_result"]["runId"] for event in events if event["eventType"] == "COMPLETE"]
    assert ended == [repair_run.run_id, None if back is None else back.run_id]

    assert undone == repair_run.run_id
    assert back is not None
    assert read_served(computed) == BEFORE
    assert set(back.stale) == {*window(0), *window(1)}
    remaining_batch_run = recompute_windows(computed.lake)
    assert remaining_batch_run is not None
    assert remaining_batch_run.computed == ((window(0)[0][0], window(1)[0][1]),)
    assert read_served(computed) == [*AFTER[:3], (1, None, 1, 9), AFTER[3]]


def test_an_undo_is_refused_over_what_a_later_run_wrote(computed: Lab) -> None:
    make_draft(computed.lake, window(0), clock=CLOCK)
    repair_run, _ = publish_draft(computed.lake, None, clock=CLOCK)
    start, end = (datetime.fromtimestamp(BASE + hour * HOUR, UTC) for hour in (0, 1))
    later = recompute_windows(computed.lake, start=start, end=end)
    assert later is not None

    with pytest.raises(LakeError, match=rf"expected no later run over its windows, got batch run {later.run_id}"):
        undo_repair(computed.lake, repair_run.run_id, clock=CLOCK)

    assert read_served(computed) == AFTER


@pytest.mark.parametrize("between", ["batch", "repair", "definition"])
def test_a_draft_is_refused_once_its_ground_has_moved(computed: Lab, between: str) -> None:
    draft = make_draft(computed.lake, window(0), clock=CLOCK)
    pipeline = computed.pipeline
    if between == "batch":
        recompute_windows(PipelineLake(computed.settings, pipeline))
    elif between == "repair":
        other = make_draft(PipelineLake(computed.settings, pipeline), window(1), clock=CLOCK)
        assert other.draft is not None
        publish_draft(PipelineLake(computed.settings, pipeline), other.draft.repair_id, clock=CLOCK)
    else:
        pipeline = replace(pipeline, where="carrier IS NULL OR carrier <> 'YY'")
    tables = versions_of(computed)
    assert draft.draft is not None

    with pytest.raises(LakeError, match=EXPECTED[between]):
        publish_draft(PipelineLake(computed.settings, pipeline), draft.draft.repair_id, clock=CLOCK)

    assert versions_of(computed) == tables


EXPECTED = {
    "batch": "a batch run .* was recorded meanwhile. Nothing was published",
    "repair": "a repair .* was recorded meanwhile",
    "definition": "of another definition",
}


def test_a_draft_of_another_release_is_named_and_a_new_one_puts_it_away(computed: Lab) -> None:
    draft = make_draft(computed.lake, window(0), clock=CLOCK)
    assert draft.draft is not None
    record = Path(draft_folder(computed.lake, draft.draft.repair_id)) / RECORD
    record.write_text('{"of": "another release"}', encoding="utf-8")

    with pytest.raises(LakeError, match="make a new draft with `--window`"):
        publish_draft(computed.lake, None, clock=CLOCK)
    make_draft(computed.lake, window(0), clock=CLOCK)
    publish_draft(computed.lake, None, clock=CLOCK)

    assert (read_served(computed), record.parent.exists()) == (AFTER, False)


def test_a_damaged_record_stands_in_the_way_of_nothing_else(computed: Lab) -> None:
    """Damage the record of a draft and of a published repair: others are listed, published and undone."""
    settings, pipeline = computed.settings, computed.pipeline
    lake = PipelineLake(settings, pipeline)
    make_draft(lake, window(0), clock=CLOCK)
    repair_run, _ = publish_draft(lake, None, clock=CLOCK)
    plans = [make_draft(lake, window(1), clock=CLOCK).draft for _ in range(2)]
    drafts = [draft.repair_id for draft in plans if draft is not None]
    for repair_id in (repair_run.run_id, drafts[1]):
        (Path(draft_folder(lake, repair_id)) / RECORD).write_bytes(b"\0damaged")

    states = {str(row["id"]): row["state"] for row in list_repairs(lake)}
    assert states == {repair_run.run_id: "published", drafts[0]: "draft", drafts[1]: "unreadable"}
    with pytest.raises(LakeError, match="discard this one with `--undo --id`"):
        publish_draft(lake, None, clock=CLOCK)
    assert publish_draft(lake, repair_run.run_id, clock=CLOCK) == (repair_run, True)
    assert undo_repair(lake, drafts[1], clock=CLOCK) == (None, drafts[1], False)
    later, _ = publish_draft(lake, None, clock=CLOCK)
    assert later.run_id == drafts[0]
    undo_repair(lake, repair_run.run_id, clock=CLOCK)
    undo_repair(lake, None, clock=CLOCK)
    assert read_served(computed) == BEFORE


def test_an_undo_that_is_said_again_takes_back_no_other_repair(computed: Lab) -> None:
    settings, pipeline = computed.settings, computed.pipeline
    lake = PipelineLake(settings, pipeline)
    for hour in (0, 1):
        make_draft(lake, window(hour), clock=CLOCK)
        publish_draft(lake, None, clock=CLOCK)
    back, newest, _ = undo_repair(lake, None, clock=CLOCK)
    tables = versions_of(computed)

    assert undo_repair(lake, None, clock=CLOCK) == (back, newest, True)
    assert (read_served(computed), versions_of(computed)) == (AFTER, tables)


def test_a_repair_that_was_taken_back_is_not_published_again_and_what_it_put_back_is_served_since_then(
    computed: Lab,
) -> None:
    settings, pipeline = computed.settings, computed.pipeline
    lake = PipelineLake(settings, pipeline)
    make_draft(lake, window(0), clock=CLOCK)
    repair_run, _ = publish_draft(lake, None, clock=CLOCK)
    back, _, _ = undo_repair(lake, None, clock=CLOCK)
    assert back is not None

    with pytest.raises(LakeError, match=rf"it was undone at {re.escape(back.finished)}. Nothing was published"):
        publish_draft(lake, repair_run.run_id, clock=CLOCK)
    draft = make_draft(lake, window(0), clock=CLOCK)

    assert draft.draft is not None
    assert draft.draft.served_from == back.finished


def test_a_topic_made_again_is_refused_at_publishing(computed: Lab) -> None:
    make_draft(computed.lake, window(0), clock=CLOCK)
    recreate(computed.settings, computed.topic, PARTITIONS)

    with pytest.raises(LogError, match="topic id"):
        publish_draft(computed.lake, None, clock=CLOCK)

    assert read_served(computed) == BEFORE


def test_a_repair_while_a_run_is_under_way_is_refused(computed: Lab) -> None:
    tables = versions_of(computed)
    with (
        writer_lock(computed.settings, computed.pipeline.name),
        pytest.raises(LakeError, match="expected no run and no repair under way"),
    ):
        make_draft(computed.lake, window(0), clock=CLOCK)

    assert versions_of(computed) == tables


def test_windows_that_cannot_be_repaired_are_refused(computed: Lab) -> None:
    tables = versions_of(computed)

    with pytest.raises(DefinitionError, match="closed at the cut of epoch 1"):
        make_draft(computed.lake, window(0, 3), clock=CLOCK)
    with pytest.raises(DefinitionError, match="which have none"):
        make_draft(computed.lake, window(-30), clock=CLOCK)
    recompute_windows(computed.lake)
    with pytest.raises(DefinitionError, match="a cut at or after that of the newest batch run"):
        make_draft(computed.lake, window(0), epoch=0, clock=CLOCK)
    with pytest.raises(DefinitionError, match=r"expected the start of one, got .*:30:00Z.*\n.*nearest begin at"):
        require_windows(computed.pipeline.window, [window(0)[0][0] + 1_800_000_000], "p")
    with pytest.raises(DefinitionError, match="got sessions"):
        require_windows(Sessions(gap="30 minutes"), [0], "p")

    assert find_waiting(computed.lake, ()).ids == ()
    assert versions_of(computed)[0] == tables[0] + 1  # of the one run


def test_a_window_past_retention_is_refused_before_anything_is_read(computed: Lab) -> None:
    cut_away(computed.settings, computed.topic, {0: 1})
    points: list[str] = []

    with pytest.raises(LogError, match=r"past retention\. Nothing was read or changed"):
        make_draft(computed.lake, window(0), clock=CLOCK, probe=lambda point, _: points.append(point))

    assert points == []
    draft = make_draft(computed.lake, window(1), clock=CLOCK)
    assert draft.draft is not None


@pytest.mark.parametrize("stage", ["SHADOW", "KAPPA"])
def test_where_the_stream_is_served_repaired_windows_alone_come_from_batch(computed: Lab, stage: str) -> None:
    record_stage(computed.lake, stage)
    assert read_served(computed) == []  # the laboratory's stream has no rows

    draft = make_draft(computed.lake, window(0), clock=CLOCK)
    repair_run, _ = publish_draft(computed.lake, None, clock=CLOCK)

    assert draft.draft is not None
    assert draft.draft.counts == {"served": {"added": 2}, "batch": {"changed": 1, "same": 1}, "streaming": {"added": 2}}
    assert read_served(computed, "carrier, flights, _served_by") == [(0, "AA", 2, "repair"), (0, "UA", 1, "repair")]
    undo_repair(computed.lake, repair_run.run_id, clock=CLOCK)
    assert read_served(computed) == []


def test_a_table_that_somebody_changed_meanwhile_is_not_built_on(computed: Lab) -> None:
    draft = make_draft(computed.lake, window(0), clock=CLOCK)
    DeltaTable(computed.lake.batch_uri()).update({"flights": "flights + 1"})

    with pytest.raises(LakeError, match=r"expected no writer but ours, got .*UPDATE"):
        publish_draft(computed.lake, None, clock=CLOCK)

    assert draft.draft is not None
    assert [run.run_id for run in read_effective_runs(computed.lake)][1:] == []


def test_a_file_of_a_draft_whose_bytes_changed_is_refused_by_name(computed: Lab) -> None:
    draft = make_draft(computed.lake, window(0), clock=CLOCK)
    assert draft.draft is not None
    place = Path(draft_folder(computed.lake, draft.draft.repair_id))
    file = place / draft.draft.files["rows"]
    file.write_bytes(file.read_bytes()[:-1] + b"X")

    with pytest.raises(LakeError, match=r"file `rows-.*expected the bytes that were committed"):
        publish_draft(computed.lake, None, clock=CLOCK)

    assert read_served(computed) == BEFORE


def test_after_a_vacuum_of_all_that_is_not_listed_a_repair_can_be_taken_back(computed: Lab) -> None:
    make_draft(computed.lake, window(0), clock=CLOCK)
    repair_run, _ = publish_draft(computed.lake, None, clock=CLOCK)
    version = versions.find_current_version(computed.lake)
    assert version is not None
    for run_id in (read_effective_runs(computed.lake)[0].run_id, repair_run.run_id):
        holder = pins.name_batch_holder(run_id)
        for epoch in (0, 1):
            pins.release_pin(computed.settings, version, epoch, holder=holder, now=CLOCK.now())
    deleted_files = delete_unlisted_files(computed.lake, hours=0, now=CLOCK.now(), dry_run=False)

    undo_repair(computed.lake, repair_run.run_id, clock=CLOCK)

    assert deleted_files["batch"] == 1
    assert read_served(computed) == BEFORE


def test_a_repair_of_what_is_dirty_takes_all_of_it(computed: Lab) -> None:
    draft = make_draft(computed.lake, (), clock=CLOCK)
    assert draft.draft is not None
    repair_run, _ = publish_draft(computed.lake, None, clock=CLOCK)

    assert draft.draft.counts["served"] == {"added": 1, "changed": 1, "same": 2}
    assert repair_run.stale == ()
    assert make_draft(computed.lake, (), clock=CLOCK).draft is None
