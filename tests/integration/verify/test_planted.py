"""Every check finds what is planted on a copy of a real lake, and no other check cries: `cutover verify` exits 1."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cutover.lake.batch_runs import BatchRun
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.journal import Journal, JournalRow
from cutover.lake.journal_rows import GateEvent, PinEvent, VersionEvent
from cutover.lake.tables.schemas import batch_schema
from cutover.pipeline_lake import PipelineLake, control_uri
from cutover.reconcile.verify.facts.facts import CheckState
from cutover.reconcile.verify.record import verify_pipeline
from cutover.settings import KafkaSettings
from tests.integration.reconcile.lake_of import write_run
from tests.integration.streaming.rig import MINUTE, NOON
from tests.integration.verify.lab import (
    ALL,
    LATE,
    Lab,
    Raw,
    Rows,
    fold,
    list_violated,
    of_class,
    rewrite,
    row_edit,
    verify_lab,
)
from tests.support.comparison.planted import replace_rows
from tests.support.history.journal_rows import make_row
from tests.support.history.older_copy import restored_after


def test_a_clean_lake_holds_in_every_check(lab: Lab) -> None:
    verification = verify_lab(lab)

    assert (verification.exit_code, set(verification.checks), verification.violations) == (0, ALL, ())
    assert {checked.state for checked in verification.checks.values()} == {CheckState.HELD}


def record_edit(epoch: int, edit: Callable[[EpochRecord], EpochRecord | None]) -> Callable[[Rows], Rows]:
    """Return an edit of one epoch's record; None takes it out."""

    def edited(row: Raw) -> Rows:
        edited_record = edit(EpochRecord.from_json(row["_record"]))
        return [] if edited_record is None else [{**row, "_record": edited_record.to_json()}]

    return row_edit(lambda row: row["_kind"] == "epoch" and row["_epoch"] == epoch, edited)


def without(offsets: Any, partition: int) -> dict[int, int]:
    return {p: offset for p, offset in offsets.items() if p != partition}


def _more(name: str) -> Callable[[Raw], Rows]:
    return lambda row: [{**row, name: row[name] + 1}]


def _accepted(row: Raw) -> Rows:
    return [{**row, "_class": "accepted", "_kind": "partial", "_positions": None}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    id: str
    edit: Callable[[Rows], Rows]
    checks: frozenset[str]
    text: str


def plant(id_: str, check: str, text: str, edit: Callable[[Rows], Rows]) -> Plant:
    return Plant(id=id_, edit=edit, checks=frozenset(check.split()), text=text)


PLANTS = (
    plant("a hand that changed nothing", "N2", "WRITE without a record", lambda rows: rows),
    plant(
        "an offset off by one",
        "N1 N2 N3 N4",
        "partition 0: expected to start at",
        record_edit(2, lambda r: replace(r, start={**r.start, 0: r.start[0] + 1})),
    ),
    plant(
        "a ledger row twice",
        "N1 N2",
        "is in the ledger twice",
        row_edit(of_class("malformed", 1), lambda row: [row, row]),
    ),
    plant("an epoch missing", "N1 N2 N3 N6", "epoch 1 is missing", record_edit(1, lambda _: None)),
    plant(
        "a watermark 1 ms back",
        "N2 N6",
        "epoch 2: expected not before",
        record_edit(2, lambda r: replace(r, watermark_after=(r.watermark_before or 0) - 1000)),
    ),
    plant(
        "a watermark 1 ms ahead",
        "N2 N6",
        "by its partitions",
        record_edit(1, lambda r: replace(r, watermark_after=(r.watermark_after or 0) + 1000)),
    ),
    plant(
        "a partial doubled",
        "N1 N2 N4 N5 N6",
        "expected accepted rows of",
        row_edit(of_class("accepted", 0), lambda row: [row, row]),
    ),
    plant(
        "a partial deleted",
        "N1 N2 N4 N5 N6",
        "expected accepted rows of",
        row_edit(of_class("accepted", 0), lambda _: []),
    ),
    plant(
        "a count wrong",
        "N1 N2",
        "as it counted",
        record_edit(1, lambda r: replace(r, counts={**r.counts, "filtered": r.counts["filtered"] + 1})),
    ),
    plant(
        "a final window changed",
        "N2 N4 N5 N6",
        "held, got another result",
        row_edit(of_class("accepted", 0), _more("ids")),
    ),
    plant(
        "a late record that counts",
        "N1 N2 N4 N6",
        "had closed it",
        row_edit(of_class("late", 2), _accepted),
    ),
    plant(
        "two commits of one epoch",
        "N1 N2 N3 N4 N6",
        "epoch 0: expected one record, got 2",
        lambda rows: [*rows, *(row for row in rows if row["_epoch"] == 0)],
    ),
    plant(
        "a partition that disappears",
        "N1 N2 N3 N4",
        ", partition 1: expected to start at 25, got None",
        record_edit(2, lambda r: replace(r, start=without(r.start, 1), end=without(r.end, 1))),
    ),
    plant(
        "a topic id that changes",
        "N2 N3",
        "epoch 2: expected topic id",
        record_edit(2, lambda r: replace(r, topic_id="another")),
    ),
    plant(
        "a fenced driver that came back",
        "N2",
        "had fenced it",
        record_edit(1, lambda r: replace(r, run_id="pid-2-other")),
    ),
)


@pytest.mark.parametrize("planted", PLANTS, ids=lambda planted: planted.id)
def test_what_is_planted_in_the_epoch_log_is_found(lab: Lab, planted: Plant) -> None:
    rewrite(lab, planted.edit)

    verification = verify_lab(lab)

    assert (verification.exit_code, list_violated(verification), verification.runbook) == (
        1,
        set(planted.checks),
        "InvariantBroken",
    )
    assert planted.text in "\n".join(violation.text for violation in verification.violations)


def test_a_fold_changes_nothing(lab: Lab) -> None:
    fold(lab, upto=1)

    verification = verify_lab(lab)

    assert (verification.exit_code, verification.violations) == (0, ())
    assert verification.checks["N4"].coverage.endswith(", 1 fold")


@pytest.mark.quick("GateEvent")
@pytest.mark.parametrize("row_type", [VersionEvent, GateEvent, PinEvent])
def test_an_older_copy_of_a_control_table_is_found_by_n9(lab: Lab, row_type: type[JournalRow]) -> None:
    row = make_row(row_type, pipeline=lab.lake.name)
    journal = Journal(lab.lake.settings, lab.lake.name, row_type)
    journal.append(row)
    with restored_after(lab.lake.settings, control_uri(lab.lake.settings, row_type.TABLE)):
        journal.append(row)

    verification = verify_lab(lab)

    assert (verification.exit_code, list_violated(verification)) == (1, {"N9"})
    assert "which is marked, got an older copy" in verification.checks["N9"].violations[0].text


def test_an_epoch_that_is_missing_behind_a_fold_is_found(lab: Lab) -> None:
    fold(lab, upto=2)
    rewrite(lab, record_edit(1, lambda _: None))

    verification = verify_lab(lab)

    assert (verification.exit_code, list_violated(verification)) == (1, {"N1", "N2", "N3", "N6"})
    assert "the record of an epoch in them is missing" in " ".join(verification.checks["N4"].notes)


@pytest.mark.quick
def test_a_fold_that_forgets_rows_is_found(lab: Lab) -> None:
    fold(lab, upto=1, forget=1)

    verification = verify_lab(lab)

    assert list_violated(verification) == {"N1", "N4", "N6", "N9"}  # no driver commits such a fold
    assert verification.checks["N5"].state is CheckState.NOT_PROVABLE  # its files do not weigh what the folded ones did
    assert "Fold in table version 5: window" in "\n".join(violation.text for violation in verification.violations)


def republish_batch(lab: Lab, edit: Callable[[Raw], Raw]) -> None:
    """Let batch publish once more at the same cut, one row edited."""
    uri, schema = lab.lake.batch_uri(), batch_schema(lab.lake.pipeline)
    first_row, *other_rows = DeltaTable(uri).to_pyarrow_table().cast(schema).to_pylist()
    version = replace_rows(uri, pa.Table.from_pylist([edit(first_row), *other_rows], schema=schema))
    run: BatchRun = replace(lab.batch, run_id="batch-2", batch_version=version, finished="2026-01-06T00:00:00Z")
    write_run(lab.lake.settings, run, lab.lake.pipeline)


@pytest.mark.quick
def test_a_changed_row_of_the_batch_is_found(lab: Lab) -> None:
    republish_batch(lab, lambda row: {**row, "ids": row["ids"] + 1})

    verification = verify_lab(lab)

    assert (verification.exit_code, list_violated(verification)) == (1, {"N5", "N8"})


def test_a_cut_computed_twice_is_the_same_story(lab: Lab) -> None:
    republish_batch(lab, lambda row: row)

    verification = verify_lab(lab)

    assert (verification.exit_code, verification.checks["N8"].coverage) == (0, "8 windows of 1 pair of runs")


def test_an_epoch_that_a_reader_saw_and_that_is_gone_is_found(lab: Lab) -> None:
    log = Path(lab.version.uri) / "_delta_log"
    max(log.glob("*.json")).unlink()

    assert "N3" in list_violated(verify_lab(lab))


def test_a_missing_file_leaves_nothing_to_judge(lab: Lab) -> None:
    next(Path(lab.version.uri).glob("_kind=ledger/*.parquet")).unlink()

    verification = verify_lab(lab)

    assert (verification.exit_code, verification.runbook) == (2, "TableUnreadable")
    assert {checked.state for checked in verification.checks.values()} == {CheckState.NOT_PROVABLE}


def test_a_log_out_of_reach_leaves_the_others_to_judge(lab: Lab) -> None:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:9", timeout_seconds=1)

    verification = verify_pipeline(
        PipelineLake(lab.lake.settings.model_copy(update={"kafka": kafka}), lab.lake.pipeline)
    )

    unknown = {name for name, checked in verification.checks.items() if checked.state is CheckState.NOT_PROVABLE}
    assert (verification.exit_code, unknown) == (2, {"N1", "N4"})


def test_only_the_checks_asked_for_are_judged(lab: Lab) -> None:
    assert set(verify_lab(lab, only=["N3", "N6"]).checks) == {"N3", "N6"}


def test_the_plants_lie_where_they_should() -> None:
    """A late record is late: its window closed before its epoch began."""
    assert LATE.micros < NOON + 10 * MINUTE
