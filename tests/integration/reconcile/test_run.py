"""Verdicts on tables of a real lake: clean, late, masked, and the recorded results."""

import json
import random
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest

from cutover.clock import Point, SystemClock
from cutover.definition.windows.kinds import SlidingWindows
from cutover.errors import DefinitionError
from cutover.lake.control import pins, versions
from cutover.lake.journal import Journal
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.journal_rows import DifferenceEvent
from cutover.reconcile.result.finding import CellStep, Verdict
from cutover.reconcile.result.report import Report
from cutover.reconcile.verdict import history, records
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    HOUR,
    PIPELINE,
    START,
    Lake,
    Sale,
    edit_batch_row,
    lake_of,
    reconcile,
    replace_batch,
    write,
)
from tests.support.suite.quick_spark import QUICK

pytestmark = pytest.mark.quick

CLEAN = tuple(
    Sale(epoch=i % 3, hour=i % 7, shop=("a", "b", None)[i % 3], desk=(1, None)[i % 2], amount=i) for i in range(60)
)
LATE = (
    Sale(epoch=2, hour=1, amount=1000, kind="late"),
    Sale(epoch=2, hour=1, amount=-5, kind="late"),
    Sale(epoch=2, hour=3, shop="only late", amount=7, kind="late"),
)
SCHEMA = json.loads(Path("reconcile/report.schema.json").read_text(encoding="utf-8"))


def run(settings: Settings, lake: Lake) -> Report:
    write(settings, lake)
    return reconcile(PipelineLake(settings, PIPELINE))


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Report]:
    """Compare equal sides; tests only read the installation and its report."""
    settings = Settings(home=tmp_path_factory.mktemp("clean"), spark=QUICK)
    return settings, run(settings, lake_of(CLEAN))


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Compare sides that late records tell apart; tests only read the report."""
    return run(Settings(home=tmp_path_factory.mktemp("late"), spark=QUICK), lake_of((*CLEAN, *LATE)))


def steps(result: Report, measure: str, shop: str = "a") -> tuple[CellStep, ...]:
    cells = [cell for cell in result.finding.differences if cell.measure == measure and cell.key["shop"] == shop]
    return cells[0].steps


def test_equal_sides_are_consistent(clean: tuple[Settings, Report]) -> None:
    _, result = clean

    assert (result.finding.verdict, result.finding.exit_code, result.finding.differences_total) == (
        Verdict.CONSISTENT,
        0,
        0,
    )


@pytest.mark.quick("lake-00", "lake-01")
@pytest.mark.parametrize("seed", range(20), ids=lambda seed: f"lake-{seed:02}")
def test_clean_lakes_are_consistent(settings: Settings, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 -- test data
    sales = [
        Sale(
            epoch=rng.randrange(4),
            hour=rng.randrange(9),
            shop=rng.choice(["a", "b", None]),
            amount=rng.randrange(99),
        )
        for _ in range(50)
    ]

    assert run(settings, lake_of(sales)).finding.verdict is Verdict.CONSISTENT


def test_late_records_explain_every_difference(late: Report) -> None:
    row_counts = (
        late.finding.causes["late"].rows,
        late.finding.causes["late"].events,
        late.finding.causes["unexplained"].rows,
    )
    assert (late.finding.verdict, *row_counts) == (Verdict.EXPLAINED, 2, 3, 0)


@pytest.mark.parametrize(("edits", "windows", "rows"), [((0, 1), 1, 2), ((0, 3, 6), 3, 3), ((0, 1, 3), 2, 3)])
def test_windows_that_differ_are_counted_once_for_all_of_their_keys(
    settings: Settings, edits: tuple[int, ...], windows: int, rows: int
) -> None:
    sales = [Sale(hour=hour, shop=shop) for hour in range(3) for shop in ("a", "b", "c")]
    lake = lake_of(sales)
    for place in edits:
        lake = edit_batch_row(lake, place, lambda row: row | {"revenue": row["revenue"] + 1})

    result = run(settings, lake)

    assert (result.finding.windows.different, result.finding.rows.changed) == (windows, rows)


def test_a_report_says_how_far_apart_and_where(settings: Settings) -> None:
    sales = [Sale(hour=hour, shop=f"s{shop}") for hour in range(9) for shop in range(10)]
    lake = lake_of(sales)
    for place in [place for place, row in enumerate(lake.batch) if row["shop"] == "s3"]:
        lake = edit_batch_row(lake, place, lambda row: row | {"revenue": row["revenue"] + 4})
    result = run(settings, lake)

    assert [(a.column, a.rows, a.above, a.mean, a.p50, a.largest) for a in result.finding.apart] == [
        ("revenue", 9, 0, -4, 4, 4)
    ]
    assert [(s.column, s.value, s.different, s.rows) for s in result.finding.segments] == [("shop", "s3", 9, 9)]


def test_late_share_is_late_pairs_of_all_pairs(late: Report) -> None:
    assert late.finding.policy.late_share == 3 / (60 + 3)


def test_late_share_beyond_the_policy_is_exit_one(settings: Settings) -> None:
    strict = replace(PIPELINE, policy=replace(PIPELINE.policy, max_late_share=0.01))
    write(settings, lake_of((*CLEAN, *LATE)))

    result = reconcile(PipelineLake(settings, strict))

    assert (result.finding.verdict, result.finding.exit_code, len(result.finding.policy.reasons)) == (
        Verdict.EXPLAINED,
        1,
        1,
    )


def test_waterfall_of_a_sum_leads_from_batch_to_streaming(late: Report) -> None:
    revenue = next(fall for fall in late.finding.waterfall if fall.measure == "revenue")
    total = sum(range(60))
    assert (revenue.batch, [(s.cause, s.amount) for s in revenue.steps], revenue.streaming) == (
        total + 1000 - 5 + 7,
        [("late", -(1000 - 5 + 7))],
        total,
    )


def test_minimum_and_maximum_show_before_and_after(late: Report) -> None:
    assert (steps(late, "least"), steps(late, "most")) == (
        (CellStep(cause="late", before=36, after=-5),),
        (CellStep(cause="late", before=36, after=1000),),
    )


def test_a_row_of_late_records_alone_is_missing_from_the_stream(late: Report) -> None:
    cells = [c for c in late.finding.differences if c.key["shop"] == "only late" and c.measure == "revenue"]
    assert [(c.kind, c.streaming, c.batch, c.difference, c.cause) for c in cells] == [("missing", None, 7, -7, "late")]


def test_a_difference_beside_a_late_record_stays_unexplained(settings: Settings) -> None:
    lake = lake_of((*CLEAN, *LATE))
    place = next(i for i, row in enumerate(lake.batch) if row["shop"] == "only late")

    result = run(settings, edit_batch_row(lake, place, lambda row: row | {"revenue": row["revenue"] + 1}))

    assert (result.finding.verdict, steps(result, "revenue", "only late")) == (
        Verdict.DIVERGED,
        (CellStep(cause="late", before=None, after=7), CellStep(cause="unexplained", before=7, after=8)),
    )


def test_late_records_that_batch_lacks_too_are_found_although_the_sides_agree(settings: Settings) -> None:
    lake = lake_of((*CLEAN, *LATE))
    place = next(i for i, row in enumerate(lake.batch) if row["shop"] == "only late")

    result = run(settings, edit_batch_row(lake, place, lambda _: None))

    masked = {cell.kind for cell in result.finding.differences if cell.key["shop"] == "only late"}
    assert (result.finding.verdict, result.finding.causes["unexplained"].rows, masked) == (
        Verdict.DIVERGED,
        1,
        {"masked"},
    )


def test_a_sum_that_is_one_below_zero_is_not_zero(settings: Settings) -> None:
    lake = lake_of((Sale(amount=5), Sale(amount=-6)))

    result = run(settings, edit_batch_row(lake, 0, lambda row: row | {"revenue": Decimal(0)}))

    assert (result.finding.verdict, result.finding.causes["unexplained"].rows) == (Verdict.DIVERGED, 1)


def test_a_record_called_late_before_its_window_closed_explains_nothing(settings: Settings) -> None:
    lake = lake_of((*CLEAN, *LATE))
    early = tuple(replace(e, watermark_before=None) if e.epoch == 2 else e for e in lake.epochs)

    result = run(settings, replace(lake, epochs=early))

    assert (result.finding.verdict, result.finding.causes["unexplained"].rows) == (Verdict.DIVERGED, 2)


def test_a_ledger_that_lists_fewer_records_than_it_counts_explains_nothing(settings: Settings) -> None:
    lake = lake_of((*CLEAN, *LATE))
    shorter = tuple(
        row | {"_positions": row["_positions"][:-1]} if row["_class"] == "late" else row for row in lake.partials
    )

    result = run(settings, replace(lake, partials=shorter))

    assert (result.finding.verdict, result.finding.causes["unexplained"].rows) == (Verdict.DIVERGED, 2)


def test_future_records_are_out_on_both_sides(settings: Settings) -> None:
    result = run(settings, lake_of((*CLEAN, Sale(epoch=1, hour=2, kind="future"))))

    assert (result.finding.verdict, result.finding.events.future) == (Verdict.CONSISTENT, 1)


def test_open_windows_are_counted_and_not_judged(settings: Settings) -> None:
    lake = lake_of((*CLEAN, Sale(epoch=2, hour=99)))  # ends at 100, waits until 101; the watermark is at 100
    without = replace(lake, batch=lake.batch[:-1])

    result = run(settings, without)

    assert (result.finding.verdict, result.finding.windows.open, result.finding.windows.compared) == (
        Verdict.CONSISTENT,
        1,
        7,
    )


def test_stale_windows_are_counted_as_incomplete(settings: Settings) -> None:
    lake = edit_batch_row(lake_of(CLEAN), 0, lambda _: None)
    hour = 3_600_000_000
    first_start = round(START.timestamp()) * 1_000_000
    run_ = replace(lake.run, stale=((first_start, first_start + hour),))

    result = run(settings, replace(lake, run=run_))

    assert (result.finding.verdict, result.finding.windows.incomplete, result.finding.windows.compared) == (
        Verdict.CONSISTENT,
        1,
        6,
    )


def test_a_range_judges_its_windows_alone(settings: Settings) -> None:
    write(settings, lake_of((*CLEAN, *LATE)))

    result = reconcile(
        PipelineLake(settings, PIPELINE), start=START + timedelta(hours=2), end=START + timedelta(hours=4)
    )

    assert (result.finding.windows.compared, result.finding.causes["late"].events) == (2, 1)


def test_the_object_fits_the_published_schema_and_comes_back(settings: Settings) -> None:
    result = run(settings, edit_batch_row(lake_of((*CLEAN, *LATE)), 0, lambda _: None))
    raw = json.loads(json.dumps(result.to_json()))

    jsonschema.validate(raw, SCHEMA)
    assert Report.from_json(raw) == result


def test_every_run_is_recorded_with_its_report(clean: tuple[Settings, Report]) -> None:
    settings, result = clean

    row = records.read_comparisons(settings, PIPELINE.name)[0]
    assert (row.run_id, row.verdict, (settings.reports_dir / str(row.report)).is_file()) == (
        result.run.run_id,
        "CONSISTENT",
        True,
    )


def test_the_verdict_is_recorded_after_its_report_was_rendered(settings: Settings) -> None:
    points: list[tuple[str, int, int]] = []
    write(settings, lake_of(CLEAN))

    reconcile(
        PipelineLake(settings, PIPELINE),
        probe=lambda point, epoch: points.append(
            (point, epoch, len(records.read_comparisons(settings, PIPELINE.name)))
        ),
    )

    assert points == [("report.rendered", 2, 0), ("verdict.recorded", 2, 1)]


def test_an_unexplained_difference_opens_and_is_resolved_when_it_is_gone(settings: Settings) -> None:
    spoilt = edit_batch_row(lake_of(CLEAN), 0, lambda row: row | {"most": 4711})
    run(settings, spoilt)
    lake = PipelineLake(settings, PIPELINE)
    opened = len(history.read_open_differences(lake))
    mended = replace(spoilt, batch=(), run=replace(spoilt.run, run_id="batch-2", finished="2026-01-06T00:00:00Z"))
    replace_batch(settings, replace(mended, batch=lake_of(CLEAN).batch))

    reconcile(lake)

    states = [row.state for row in Journal(settings, PIPELINE.name, DifferenceEvent).read()]
    assert (opened, states) == (1, ["open", "resolved"])


def test_a_cut_is_held_for_the_comparison_and_let_go_after_it(settings: Settings) -> None:
    lake, clock = lake_of(CLEAN), SystemClock()
    write(settings, lake)
    pipeline_lake = PipelineLake(settings, PIPELINE)
    version = versions.find_current_version(pipeline_lake)
    assert version is not None
    holder = pins.name_batch_holder(lake.run.run_id)
    pins.pin(settings, version, 2, holder=holder, expires_at=clock.now() + pins.LONGEST, now=clock.now())
    pinned = []

    def note_pinned(point: Point, epoch: int) -> None:  # noqa: ARG001 -- the protocol's names
        pinned.append(pins.list_pinned_epochs(settings, version, now=clock.now()))

    reconcile(pipeline_lake, probe=note_pinned)

    assert pinned == [(2,), ()]


def test_an_empty_range_is_refused(settings: Settings) -> None:
    write(settings, lake_of(CLEAN))

    with pytest.raises(DefinitionError, match="expected a start before an end"):
        reconcile(PipelineLake(settings, PIPELINE), start=START + timedelta(hours=2), end=START + timedelta(hours=2))
    assert records.read_comparisons(settings, PIPELINE.name) == ()


def test_a_difference_in_a_window_that_was_not_judged_stays_open(settings: Settings) -> None:
    spoilt = edit_batch_row(lake_of(CLEAN), 2, lambda row: row | {"most": 4711})
    run(settings, spoilt)
    at = round(spoilt.batch[2]["window_start"].timestamp()) * 1_000_000
    stale = replace(spoilt.run, run_id="b2", finished="2026-01-06T00:00:00Z", stale=((at, at + 3_600_000_000),))
    replace_batch(settings, replace(spoilt, run=stale))

    lake = PipelineLake(settings, PIPELINE)
    result = reconcile(lake)

    assert (result.finding.verdict, result.finding.windows.incomplete) == (Verdict.CONSISTENT, 1)
    assert len(history.read_open_differences(lake)) == 1


def test_where_batch_vouches_for_no_closed_window_there_is_no_verdict(settings: Settings) -> None:
    lake = lake_of(CLEAN)

    result = run(settings, replace(lake, run=replace(lake.run, stale=lake.run.computed)))

    assert (result.finding.verdict, result.finding.exit_code, result.finding.seal.breaches[0].code) == (
        Verdict.NOT_COMPARABLE,
        2,
        "uncovered",
    )


def test_records_without_a_window_are_counted_and_shown_by_position(settings: Settings) -> None:
    bare = {"_kind": "ledger", "_epoch": 0, "_n": 1, "_unknown": 0}
    broken = {"partition": 0, "offset": 5, "event_time": None, "reason": "json"}
    malformed = bare | {"_class": "malformed", "_positions": [broken]}
    filtered = bare | {"_class": "filtered", "_n": 3, "_partition": 0}
    lake = lake_of(CLEAN)

    result = run(settings, replace(lake, partials=(*lake.partials, malformed, filtered)))

    sample = result.finding.samples[0]
    assert (result.finding.verdict, result.finding.events.malformed, result.finding.events.filtered) == (
        Verdict.CONSISTENT,
        1,
        3,
    )
    assert (sample.class_, sample.offset, sample.reason, sample.window_start) == ("malformed", 5, "json", None)


def test_a_record_late_in_two_sliding_windows_is_one_event_and_two_pairs(settings: Settings) -> None:
    sliding = replace(PIPELINE, window=SlidingWindows(size=2 * HOUR, every=HOUR))
    pairs = [Sale(hour=0), Sale(hour=1), Sale(epoch=1, hour=0, kind="late"), Sale(epoch=1, hour=1, kind="late")]
    lake = lake_of(pairs, sliding)
    at = START + timedelta(hours=1, minutes=1)
    position = {"partition": 0, "offset": 1, "event_time": at, "reason": None}
    rows = tuple(row | {"_positions": [position]} if row["_class"] == "late" else row for row in lake.partials)
    epochs = tuple(replace(e, start={0: e.epoch}, end={0: e.epoch + 1}, records=1) for e in lake.epochs)
    both = lake_of([Sale(hour=1), Sale(hour=1)])  # of both windows, as the log has them
    ranges = tuple(row | {"first_offset": 0, "last_offset": 1} for row in lake.ranges)
    lake = replace(lake, partials=rows, epochs=epochs, run=replace(lake.run, cut={0: 2}), log=both.log, ranges=ranges)
    write(settings, lake, sliding)

    result = reconcile(PipelineLake(settings, sliding))

    assert (result.finding.verdict, result.finding.policy.late_share) == (Verdict.EXPLAINED, 2 / (2 + 2))
    assert (
        result.finding.events.accepted,
        result.finding.events.late,
        result.finding.causes["late"].events,
        result.finding.causes["late"].rows,
    ) == (
        1,
        1,
        1,
        2,
    )
