"""Accepted losses of the log: never compared, counted by reason, stated first, and a condition of the gate."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jsonschema
import pyarrow as pa
import pytest

from cutover.cli.app import main
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.policy import Stage
from cutover.lake.control import losses
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal_rows import Loss
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import BATCH_INDEX
from cutover.output.console import Output, render
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.explain import explain_cell
from cutover.reconcile.cli.reconcile import list_explanation_lines
from cutover.reconcile.gate import evidence
from cutover.reconcile.gate.decide import decide
from cutover.reconcile.preconditions.log_state import describe_losses
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    PIPELINE,
    START,
    Lake,
    Sale,
    edit_batch_row,
    lake_of,
    log_of_lake,
    micros,
    reconcile,
    write,
)
from tests.integration.reconcile.test_run import CLEAN, SCHEMA
from tests.support.log.held_log import HeldLog
from tests.support.log.losses import LOSS as A_LOSS

LOSS = replace(
    A_LOSS,
    pipeline=PIPELINE.name,
    result_fingerprint=result_fingerprint(PIPELINE),
    epoch=3,
    topic="sales",
    topic_id="topic-1",
    onward_topic_id="topic-1",
    windows_from=micros(2),
    windows_to=micros(4),
    why="a disk was full",
    at=datetime(2026, 1, 2, tzinfo=UTC),
)


def record(settings: Settings, *rows: Loss) -> None:
    losses.record(settings, rows, expected_sequence=losses.read_next_loss_sequence(settings, PIPELINE.name))


def shift_behind_gap(lake: Lake, skipped: int) -> Lake:
    """Return a lake whose epoch 2 starts behind a gap of offsets."""

    def shift(epoch: EpochRecord) -> EpochRecord:
        shift = {0: skipped if epoch.epoch >= 2 else 0}
        start, end = epoch.start[0], epoch.end[0]
        return replace(epoch, start={0: start + shift[0]}, end={0: end + shift[0]})

    epochs = tuple(map(shift, lake.epochs))
    return replace(lake, epochs=epochs, run=replace(lake.run, cut=dict(epochs[-1].end)))


def spoilt(*, hour: int) -> Lake:
    """Return a lake whose batch table says something else of one row of an hour."""
    lake = lake_of(CLEAN)
    place = next(i for i, row in enumerate(lake.batch) if row["window_start"] == START + timedelta(hours=hour))
    return edit_batch_row(lake, place, lambda row: row | {"most": 4711})


def run(settings: Settings, lake: Lake, *rows: Loss) -> Report:
    write(settings, lake)
    if rows:
        record(settings, *rows)
    return reconcile(PipelineLake(settings, PIPELINE))


@pytest.mark.parametrize(("hour", "verdict"), [(2, Verdict.CONSISTENT), (3, Verdict.CONSISTENT), (4, Verdict.DIVERGED)])
def test_touched_windows_are_not_compared_and_all_others_are(settings: Settings, hour: int, verdict: Verdict) -> None:
    result = run(settings, spoilt(hour=hour), LOSS)

    assert result.finding.verdict is verdict
    assert (result.finding.windows.compared, result.finding.windows.incomplete) == (5, 2)
    assert result.finding.windows.incomplete_because == {"lost": 2}


def test_window_that_is_lost_and_stale_counts_once_as_lost(settings: Settings) -> None:
    lake = lake_of(CLEAN)
    stale = replace(lake.run, stale=((micros(3), micros(5)),))

    result = run(settings, replace(lake, run=stale), LOSS)

    assert result.finding.windows.incomplete_because == {"lost": 2, "stale": 1}


def test_report_says_it_on_top_and_names_every_range(settings: Settings) -> None:
    result = run(settings, lake_of(CLEAN), LOSS)

    assert result.finding.loss == (
        "The log lost records (topic sales, partition 0: offsets 40 to 59). 2 closed windows may miss some of them: "
        "incomplete(lost), not compared."
    )
    assert [(loss.partition, loss.first, loss.next, loss.why) for loss in result.finding.losses] == [
        (0, 40, 60, "a disk was full")
    ]
    assert any("windows before 2026-01-01T02:00:00Z" in note for note in result.finding.notes)
    jsonschema.validate(result.to_json(), SCHEMA)
    assert Report.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert "a disk was full" in (settings.reports_dir / str(result.run.page)).read_text(encoding="utf-8")


def test_loss_that_touches_no_window_is_shown_and_changes_nothing(settings: Settings) -> None:
    result = run(settings, lake_of(CLEAN), replace(LOSS, windows_from=None, windows_to=None))

    other_notes = [note for note in result.finding.notes[1:] if "could not confirm" not in note]
    assert (result.finding.windows.incomplete, result.finding.loss, len(result.finding.losses), other_notes) == (
        0,
        None,
        1,
        [],
    )


def test_sentence_names_few_ranges_and_an_unknown_end() -> None:
    rows = [replace(LOSS, partition=p, next=None if p == 0 else 60) for p in range(5)]

    text = describe_losses(rows, {"lost": 1})

    assert text is not None
    assert "partition 0: offset 40 and all after it of topic id topic-1" in text
    assert "; and 2 more). 1 closed window may miss" in text


@pytest.mark.quick
def test_where_every_closed_window_is_lost_there_is_no_verdict(settings: Settings) -> None:
    result = run(settings, lake_of(CLEAN), replace(LOSS, windows_from=micros(-9), windows_to=micros(99)))

    assert (result.finding.verdict, result.finding.exit_code, result.finding.seal.breaches[0].code) == (
        Verdict.NOT_COMPARABLE,
        2,
        "uncovered",
    )
    assert "7 lost" in result.finding.seal.breaches[0].message
    assert result.finding.loss is not None


def test_seal_holds_over_a_gap_only_as_far_as_it_was_recorded(settings: Settings) -> None:
    lake = shift_behind_gap(lake_of(CLEAN), 20)
    end = lake.epochs[1].end[0]

    torn = run(settings, lake)
    record(settings, replace(LOSS, epoch=2, first=end, next=end + 19))
    pipeline_lake = PipelineLake(settings, PIPELINE)
    short = reconcile(pipeline_lake)
    record(settings, replace(LOSS, epoch=2, first=end + 19, next=end + 20))
    complete = reconcile(pipeline_lake)

    assert [report.finding.verdict for report in (torn, short)] == [Verdict.NOT_COMPARABLE] * 2
    assert [breach.runbook for breach in (*torn.finding.seal.breaches, *short.finding.seal.breaches)] == [
        "EpochHistoryBroken"
    ] * 2
    assert complete.finding.verdict is Verdict.CONSISTENT


def write_scanned_index(settings: Settings, lake: Lake, **first_offsets: int) -> None:
    """Write the batch index: each hour's window with the first offset that holds it."""
    index = delta.ensure(PipelineLake(settings, PIPELINE).batch_uri("batch_index"), BATCH_INDEX)
    rows = [
        {
            "_kind": "range",
            "_run": lake.run.run_id,
            "_partition": 0,
            "window_start": START + timedelta(hours=int(hour[1:])),
            "window_end": START + timedelta(hours=int(hour[1:]) + 1),
            "first_offset": first_offset,
        }
        for hour, first_offset in first_offsets.items()
    ]
    commits.append(index, pa.Table.from_pylist(rows, schema=BATCH_INDEX))


def test_window_whose_records_went_before_the_version_began_is_not_compared(settings: Settings) -> None:
    sales = [Sale(hour=h) for h in range(5)]
    lake = lake_of(sales)
    began = tuple(replace(epoch, start={0: 20}, end={0: 25}) for epoch in lake.epochs)
    batch = lake_of([*sales, Sale(hour=0)]).batch
    lake = replace(lake, epochs=began, run=replace(lake.run, cut={0: 25}), batch=batch, ranges=())
    write(settings, lake)
    write_scanned_index(settings, lake, h0=3, h1=19, h2=20, h3=21, h4=25)

    result = reconcile(PipelineLake(settings, PIPELINE))

    assert result.finding.verdict is Verdict.CONSISTENT
    assert (result.finding.windows.compared, result.finding.windows.incomplete_because) == (3, {"unread": 2})


@pytest.mark.quick
@pytest.mark.parametrize(("hour", "state"), [(1, "closed"), (2, "incomplete(lost)"), (3, "incomplete(lost)")])
def test_explained_cell_says_that_its_window_is_lost(settings: Settings, hour: int, state: str) -> None:
    lake = lake_of([Sale(hour=h) for h in range(5)])
    write(settings, lake)
    record(settings, LOSS)

    explanation = explain_cell(
        PipelineLake(settings, PIPELINE), START + timedelta(hours=hour), ["a", "1"], log=log_of_lake(lake)
    )

    assert explanation.state == state
    assert (explanation.unasked, len(explanation.lost)) == (None, int(state != "closed"))
    assert all("topic sales, partition 0: offsets 40 to 59" in text for text in explanation.lost)


def test_explained_cell_names_records_that_the_log_lacks_and_does_not_call_its_sides_equal(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = lake_of([*(Sale(hour=h) for h in range(3)), *(Sale(epoch=1, hour=h) for h in range(3, 6))])
    write(settings, lake)
    log = HeldLog(records=[record for record in log_of_lake(lake).records if record.offset != 1])

    lossy, complete = (
        explain_cell(PipelineLake(settings, PIPELINE), START + timedelta(hours=h), ["a", "1"], log=log) for h in (2, 4)
    )
    render(iter([Output(lines=list_explanation_lines(lossy))]))

    assert [value.cause for value in lossy.values if value.streaming != value.batch] == []
    assert len(lossy.lost) == 1
    assert "Epoch 0 read 3 records, the log holds 2 of them" in lossy.lost[0]
    assert "partition 0: 1 of the offsets 1 to 1 hold no record any more" in lossy.lost[0]
    assert "equal, not judged" in capsys.readouterr().out
    assert complete.lost == ()


def test_explained_cell_says_that_the_log_could_not_be_asked(settings: Settings) -> None:
    write(settings, lake_of([Sale(hour=h) for h in range(5)]))

    explanation = explain_cell(PipelineLake(settings, PIPELINE), START + timedelta(hours=1), ["a", "1"])

    assert explanation.lost == ()
    assert "Cannot check" in (explanation.unasked or "")


def test_gate_counts_no_run_whose_cut_leaves_touched_windows_open(settings: Settings) -> None:
    run(
        settings, lake_of(CLEAN), replace(LOSS, windows_to=micros(100))
    )  # the last one closes at 101, the cut is at 100
    now = datetime.now(UTC)
    gate_evidence = evidence.read_evidence(PipelineLake(settings, PIPELINE), now)
    decision = decide(Stage.LAMBDA, gate_evidence, "advance", PIPELINE.policy, now)

    assert [(loss.closed_at, loss.epoch) for loss in gate_evidence.losses] == [(micros(101), LOSS.epoch)]
    assert (decision.allowed, decision.eligible_runs) == (False, ())
    assert "losses" in {condition.name for condition in decision.conditions if not condition.is_met}


def test_gate_counts_runs_behind_the_touched_windows(settings: Settings) -> None:
    lake = lake_of(CLEAN)
    epochs_behind = tuple(replace(epoch, start={0: 45}) if epoch.epoch == 2 else epoch for epoch in lake.epochs)
    run(settings, replace(lake, epochs=epochs_behind), replace(LOSS, epoch=2, partition=0, first=40, next=45))
    now = datetime.now(UTC)
    decision = decide(
        Stage.LAMBDA, evidence.read_evidence(PipelineLake(settings, PIPELINE), now), "advance", PIPELINE.policy, now
    )

    assert len(decision.eligible_runs) == 1
    assert "losses" not in {condition.name for condition in decision.conditions if not condition.is_met}


def test_terminal_names_the_loss(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(settings, lake_of(CLEAN))
    record(settings, LOSS)
    definitions = settings.home / "definitions"
    definitions.mkdir()
    (definitions / "sales.py").write_text(
        "from tests.integration.reconcile.lake_of import PIPELINE\n", encoding="utf-8"
    )
    monkeypatch.setenv("CUTOVER_HOME", str(settings.home))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(definitions))

    code = main(["reconcile", "sales"])

    output = " ".join(capsys.readouterr().out.split())
    assert code == 0
    assert "lost The log lost records (topic sales, partition 0: offsets 40 to 59)" in output
    assert "2 incomplete (2 lost)" in output
