"""Records with ids: batch may count another one of two twins than the stream, and the log has to bear it out."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from cutover.lake.journal import Journal
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import batch_ledger_schema
from cutover.log.kafka import RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile import run
from cutover.reconcile.journal_rows import ProvenClaims
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    PIPELINE,
    Lake,
    Raw,
    Sale,
    edit_batch_row,
    lake_of,
    micros,
    write,
    write_run,
)
from tests.support.log.held_log import HeldLog

IDS = replace(PIPELINE, source=replace(PIPELINE.source, record_id="id"))
SIDES = ("stream", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A record, and what each side calls it; its offset is its place in the log, which has one epoch before `epoch`."""

    id: int
    amount: int
    stream: str = "accepted"
    batch: str = "accepted"
    shop: str = "a"
    epoch: int = 0


def lake_of_twins(twins: Sequence[Twin]) -> Lake:
    """Return both sides of records of one window; batch's ledger is `ledger_of`."""
    lake, other = (lake_of([_sale(twin, side) for twin in twins], IDS) for side in SIDES)
    accepted = [row for row in lake.partials if row["_class"] == "accepted"]
    counts = [_counts(twins, epoch.epoch) for epoch in lake.epochs]
    return replace(
        lake,
        partials=(*accepted, *ledger_of(twins, "stream")),
        batch=other.batch,
        epochs=tuple(replace(epoch, counts=count) for epoch, count in zip(lake.epochs, counts, strict=True)),
        log=tuple(with_fields(record, id=twin.id) for record, twin in zip(lake.log, twins, strict=True)),
    )


def _sale(twin: Twin, side: str) -> Sale:
    return Sale(epoch=twin.epoch, hour=2, shop=twin.shop, amount=twin.amount, kind=getattr(twin, side))


def _counts(twins: Sequence[Twin], epoch: int) -> Mapping[str, int]:
    kinds = [twin.stream for twin in twins if twin.epoch == epoch]
    return {kind: kinds.count(kind) for kind in kinds}


def with_fields(record: RawRecord, **fields: object) -> RawRecord:
    return replace(record, value=json.dumps(json.loads(record.value or b"") | fields).encode())


def ledger_of(twins: Sequence[Twin], side: str) -> list[Raw]:
    """Return what a side does not count, a row for each record."""
    rows = []
    for offset, twin in enumerate(twins):
        (row,) = lake_of([replace(_sale(twin, side), epoch=0)], IDS).partials
        if row["_class"] != "accepted":
            (place,) = row["_positions"]
            rows.append(row | {"_epoch": twin.epoch, "_positions": [place | {"offset": offset, "id": twin.id}]})
    return rows


def write_both_sides(
    settings: Settings, twins: Sequence[Twin], change: Callable[[Lake], Lake] = lambda lake: lake
) -> Lake:
    """Write the tables of both sides, batch's ledger too."""
    lake, schema = change(lake_of_twins(twins)), batch_ledger_schema(IDS)
    ledger = [row | {"_run": lake.run.run_id} for row in ledger_of(twins, "batch")]
    table = delta.ensure(PipelineLake(settings, IDS).batch_uri("batch_ledger"), schema)
    commits.append(table, pa.Table.from_pylist(ledger, schema=schema))
    lake = replace(lake, run=replace(lake.run, ledger_version=int(table.version())))
    write(settings, lake, IDS)
    return lake


def compare_with_log(settings: Settings, log: HeldLog) -> Report:
    return run.run_reconciliation(PipelineLake(settings, IDS), log=log)


def summarize(result: Report) -> tuple[Verdict, int, int]:
    """Return the verdict, rows in which twins take part, and rows that nothing explains."""
    return result.finding.verdict, result.finding.causes["duplicate"].rows, result.finding.causes["unexplained"].rows


SWAP = (
    Twin(id=1, amount=3, stream="duplicate"),
    Twin(id=1, amount=5, batch="duplicate"),
    Twin(id=2, amount=7),
)


@pytest.mark.quick
def test_other_twin_that_batch_counts_explains_its_row(settings: Settings) -> None:
    lake = write_both_sides(settings, SWAP)

    assert summarize(compare_with_log(settings, HeldLog(records=lake.log))) == (Verdict.EXPLAINED, 1, 0)


LEFT_OUT = (
    Twin(id=1, amount=3),
    Twin(id=2, amount=7),
    Twin(id=1, amount=3, stream="late", batch="duplicate", epoch=1),
)


def test_late_twin_of_a_counted_record_is_no_difference(settings: Settings) -> None:
    lake = write_both_sides(settings, LEFT_OUT)

    assert summarize(compare_with_log(settings, HeldLog(records=lake.log))) == (Verdict.CONSISTENT, 0, 0)


@pytest.mark.quick
def test_late_record_beside_a_late_twin_explains_its_row_alone(settings: Settings) -> None:
    lake = write_both_sides(settings, (*LEFT_OUT, Twin(id=3, amount=9, stream="late", epoch=1)))

    result = compare_with_log(settings, HeldLog(records=lake.log))

    assert (summarize(result), result.finding.causes["late"].rows) == ((Verdict.EXPLAINED, 0, 0), 1)


def test_batch_that_called_no_record_a_duplicate_has_no_ledger(settings: Settings) -> None:
    twins = (Twin(id=1, amount=3), Twin(id=2, amount=5, stream="late", epoch=1))
    lake = lake_of_twins(twins)
    write(settings, lake, IDS)

    result = compare_with_log(settings, HeldLog(records=lake.log))

    assert (summarize(result), result.finding.causes["late"].rows) == ((Verdict.EXPLAINED, 0, 0), 1)


def test_twin_with_another_value_in_the_log_explains_nothing(settings: Settings) -> None:
    lake = write_both_sides(settings, SWAP)

    result = compare_with_log(settings, HeldLog(records=[with_fields(lake.log[0], amount=4), *lake.log[1:]]))

    assert summarize(result) == (Verdict.DIVERGED, 1, 1)


def test_state_of_batch_that_its_measure_does_not_follow_from_is_not_explained_by_a_twin(settings: Settings) -> None:
    def spoil(lake: Lake) -> Lake:
        return edit_batch_row(lake, 0, lambda row: row | {"mean__sum": row["mean__sum"] + 1})

    lake = write_both_sides(settings, SWAP, spoil)

    assert summarize(compare_with_log(settings, HeldLog(records=lake.log))) == (Verdict.DIVERGED, 1, 1)


def test_swap_beside_twins_that_the_stream_counted_twice_is_not_believed(settings: Settings) -> None:
    lake = write_both_sides(settings, (*SWAP, Twin(id=4, amount=6), Twin(id=4, amount=6, batch="duplicate")))

    result = compare_with_log(settings, HeldLog(records=lake.log))

    assert summarize(result) == (Verdict.DIVERGED, 1, 1)
    assert Journal(settings, IDS.name, ProvenClaims).read() == []


def test_twins_that_have_left_the_log_explain_nothing(settings: Settings) -> None:
    lake = write_both_sides(settings, SWAP)

    assert compare_with_log(settings, HeldLog(records=lake.log, begins={0: 3})).finding.verdict is not Verdict.EXPLAINED


def test_swap_that_was_proven_stays_proven_when_the_log_has_let_it_go(settings: Settings) -> None:
    lake = write_both_sides(settings, SWAP)
    proven = compare_with_log(settings, HeldLog(records=lake.log))

    second_report = compare_with_log(settings, HeldLog(records=lake.log, begins={0: 3}))

    assert summarize(second_report) == summarize(proven) == (Verdict.EXPLAINED, 1, 0)


def test_swap_is_proven_anew_when_the_ledger_of_its_window_has_changed(settings: Settings) -> None:
    twin = Twin(id=3, amount=1, shop="b")
    duplicate_twin = replace(twin, stream="duplicate", batch="duplicate", epoch=1)
    lake = write_both_sides(settings, (*SWAP, twin, duplicate_twin))
    compare_with_log(settings, HeldLog(records=lake.log))
    later = settings.model_copy(update={"home": settings.home / "later"})
    changed_lake = write_both_sides(later, (*SWAP, twin, replace(duplicate_twin, stream="late")))
    for claims in Journal(settings, IDS.name, ProvenClaims).read():
        Journal(later, IDS.name, ProvenClaims).append(claims)

    result = compare_with_log(later, HeldLog(records=changed_lake.log, begins={0: 5}))

    assert result.finding.verdict is not Verdict.EXPLAINED


def test_twins_of_a_window_are_those_of_the_last_run_that_computed_it(settings: Settings) -> None:
    def compute(lake: Lake) -> Lake:
        return replace(lake, run=replace(lake.run, computed=((micros(2), micros(3)),)))

    lake = write_both_sides(settings, SWAP, compute)
    adjacent_windows = ((micros(1), micros(2)), (micros(3), micros(4)))
    later = replace(
        lake.run, run_id="batch-2", batch_version=1, computed=adjacent_windows, finished="2026-01-05T00:00:01Z"
    )
    repeated_run = replace(later, run_id="batch-3", computed=lake.run.computed, finished="2026-01-05T00:00:02Z")
    log = HeldLog(records=lake.log)

    write_run(settings, later, IDS)
    report_before = compare_with_log(settings, log)
    write_run(settings, repeated_run, IDS)
    replaced = compare_with_log(settings, log)

    assert (summarize(report_before), summarize(replaced)) == ((Verdict.EXPLAINED, 1, 0), (Verdict.DIVERGED, 0, 1))
