"""Settlement curves compared with a plain recomputation from the drawn records and epochs, age by age."""

import html
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from cutover.definition import Count, Lateness, Pipeline, Sessions
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.cost import parse_agreement, price
from cutover.reconcile.early.settlement import AGES
from cutover.reconcile.report import page
from cutover.reconcile.result.lateness_text import describe_settlement
from cutover.reconcile.result.parts import FEW, Settlement, SettlementPoint
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import (
    CLOSED_UNTIL,
    HOUR,
    PIPELINE,
    START,
    Lake,
    Sale,
    edit_batch_row,
    lake_of,
    micros,
    reconcile,
    write,
)

MINUTE = HOUR // 60
HOURS = 40
AHEAD = 10 * MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLog:
    """Records by window and the event time at which they came, and the event time reached after each epoch."""

    arrivals: tuple[tuple[int, str, int], ...]  # hour, shop, microseconds
    marks: tuple[int, ...]

    def mark_before(self, epoch: int) -> int | None:
        return self.marks[epoch - 1] if epoch else None

    def find_epoch(self, at: int) -> int:
        """Return the first epoch that ends beyond a time: it reads what came then."""
        return next((epoch for epoch, end in enumerate(self.marks) if end > at), len(self.marks) - 1)


def draw_log(seed: int, *, leaps: bool) -> DrawnLog:
    """Draw records of which a few come minutes, hours and days behind the end of their window."""
    draw = random.Random(seed)  # noqa: S311 -- no secret
    steps = (2, 7, 20, 45, 300) if leaps else (2, 3, 4, 7)
    marks, now = [], 0
    while now < (HOURS + 2) * 60:
        now += draw.choice(steps)
        marks.append(micros(0) + now * MINUTE)
    arrivals = []
    for hour in range(HOURS):
        for _ in range(draw.choice((3, 8, 20))):
            term = draw.choice((-50, -30, -10, -5, -1, 4, 12, 25, 70, 200, 900) if draw.random() < 0.4 else (-20,))
            arrivals.append((hour, draw.choice("ab"), micros(hour + 1) + term * MINUTE))
    return DrawnLog(arrivals=tuple(arrivals), marks=tuple(marks))


def judge(log: DrawnLog, allowed: int) -> list[Sale]:
    """Return the records as a stream classes them that allows so much lateness, microseconds."""
    sales = []
    for hour, shop, at in log.arrivals:
        epoch = log.find_epoch(at)
        mark_before = log.mark_before(epoch)
        is_late = mark_before is not None and mark_before - micros(hour + 1) >= AHEAD + allowed
        sales.append(Sale(epoch=epoch, hour=hour, shop=shop, kind="late" if is_late else "accepted"))
    return sales


def make_lake(log: DrawnLog, sales: Sequence[Sale], pipeline: Pipeline) -> Lake:
    """Return the lake of a log whose youngest windows are still open."""
    ahead = (log.marks[-1] - micros(0)) // HOUR + 1
    sales = [*sales, Sale(epoch=len(log.marks) - 1, hour=ahead)]  # open: so that the last epoch has a record
    lake = lake_of(sales, pipeline)
    epochs = tuple(
        replace(
            epoch,
            max_event={0: log.marks[epoch.epoch]},
            watermark_before=None if epoch.epoch == 0 else log.marks[epoch.epoch - 1] - AHEAD,
            watermark_after=log.marks[epoch.epoch] - AHEAD,
        )
        for epoch in lake.epochs
    )
    closed = log.marks[-1] - AHEAD - pipeline.lateness.allowed_micros
    batch = tuple(row for row in lake.batch if row["window_end"] <= START + timedelta(microseconds=closed - micros(0)))
    return replace(lake, epochs=epochs, batch=batch, run=replace(lake.run, watermark=epochs[-1].watermark_after))


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Records that one window misses at an age."""

    in_log: float
    in_answer: float
    rows: int  # (window, key) rows
    different: int


def recompute(log: DrawnLog, sales: Sequence[Sale], allowed: int) -> Iterator[tuple[int, bool, dict[int, Missing]]]:
    """Yield each age, whether windows are open at it, and by window what its log and its answer miss."""
    cut, closing = log.marks[-1], AHEAD + allowed
    early = [age for age in AGES if age < closing]
    compared = [hour for hour in range(HOURS) if micros(hour + 1) + closing <= cut]
    following = dict(zip(early, (*early[1:], closing), strict=True))
    for age in (*early, closing, *(age for age in AGES if age > closing)):
        missing = {}
        for hour in compared:
            end = micros(hour + 1)
            hour_sales = [sale for sale in sales if sale.hour == hour]
            ages = [(0 if sale.epoch == 0 else log.marks[sale.epoch - 1]) - end for sale in hour_sales]
            shown_at = next(mark for mark in log.marks if mark >= end + age) if end + age <= cut else None
            is_counted = shown_at is not None and (age >= closing or shown_at < end + following[age])
            if is_counted:
                missed_sales = [
                    sale
                    for sale_age, sale in zip(ages, hour_sales, strict=True)
                    if sale_age >= age or sale.kind == "late"
                ]
                missing[hour] = Missing(
                    in_log=sum(sale_age >= age for sale_age in ages) / len(hour_sales),
                    in_answer=len(missed_sales) / len(hour_sales),
                    rows=len({sale.shop for sale in hour_sales}),
                    different=len({sale.shop for sale in missed_sales}),
                )
        yield age, age < closing, missing


def settle(settings: Settings, lake: Lake, pipeline: Pipeline = PIPELINE) -> tuple[Report, Settlement]:
    write(settings, lake, pipeline)
    report: Report = reconcile(PipelineLake(settings, pipeline))
    assert report.settlement is not None
    assert describe_settlement(report.settlement, pipeline.name).split(":")[0] in html.unescape(
        page.render_page(report)
    )
    assert Report.from_json(report.to_json()).settlement == report.settlement
    return report, report.settlement


def assert_point(point: SettlementPoint, missing: Sequence[float]) -> None:
    ordered = sorted(missing)
    assert (point.within.hits, point.within.of) == (sum(share <= 1e-3 for share in ordered), len(ordered))
    assert point.largest == pytest.approx(ordered[-1])
    assert point.p50 == pytest.approx(ordered[(len(ordered) - 1) // 2])


@pytest.mark.parametrize("leaps", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("allowed", ["20 minutes", "3 hours"])
def test_both_curves_are_those_of_a_plain_recomputation(
    settings: Settings, seed: int, allowed: str, *, leaps: bool
) -> None:
    pipeline = replace(PIPELINE, lateness=Lateness(out_of_orderness="10 minutes", allowed=allowed))
    log = draw_log(seed, leaps=leaps)
    sales = judge(log, pipeline.lateness.allowed_micros)

    _, settlement = settle(settings, make_lake(log, sales, pipeline), pipeline)

    by_age = {round(point.minutes * MINUTE): point for point in settlement.log}
    answers = {round(point.minutes * MINUTE): point for point in settlement.stream}
    closing = AHEAD + pipeline.lateness.allowed_micros
    complete_at = min((age for age, point in by_age.items() if age >= closing and not point.largest), default=None)
    for age, is_open, missing in recompute(log, sales, pipeline.lateness.allowed_micros):
        if not missing or (complete_at is not None and age > complete_at):
            assert age not in by_age
            continue
        assert_point(by_age[age], [window.in_log for window in missing.values()])
        if is_open or age == AHEAD + pipeline.lateness.allowed_micros:
            assert_point(answers[age], [window.in_answer for window in missing.values()])
            rows = next(point for point in settlement.agreement if round(point.minutes * MINUTE) == age)
            assert (rows.windows, rows.rows) == (len(missing), sum(window.rows for window in missing.values()))
            assert rows.different == sum(window.different for window in missing.values())
    assert max(answers) == AHEAD + pipeline.lateness.allowed_micros
    assert settlement.final.minutes == settlement.closing_minutes == 10 + pipeline.lateness.allowed_micros / MINUTE
    assert settlement.final.within.of == settlement.windows


def test_a_longer_wait_before_closing_is_seen_in_the_answer_and_not_in_the_log(settings: Settings) -> None:
    log = draw_log(5, leaps=False)
    shares = []
    for allowed in ("0 seconds", "4 hours"):
        lateness = Lateness(out_of_orderness="10 minutes", allowed=allowed)
        pipeline = replace(PIPELINE, name=f"sales_{allowed[0]}", lateness=lateness)
        _, settlement = settle(settings, make_lake(log, judge(log, lateness.allowed_micros), pipeline), pipeline)
        shares.append(settlement.final.within.hits / settlement.final.within.of)

    assert shares[1] > shares[0] + 0.2


def clean(hours: int = HOURS) -> list[Sale]:
    return [Sale(hour=hour, shop=shop) for hour in range(hours) for shop in "ab"]


def test_records_that_were_dropped_are_short_at_every_age_and_no_waiting_buys_a_nine(settings: Settings) -> None:
    """16 of 40 windows lost a record: 24 of 40 are right, however old."""
    late = [Sale(epoch=1, hour=hour, kind="late") for hour in range(16)]

    result, measured = settle(settings, lake_of([*clean(), *late]))

    found_settlement = replace(measured, is_replay=False)
    assert (found_settlement.final.within.hits, found_settlement.final.within.of, found_settlement.trusted) == (
        24,
        40,
        None,
    )
    settlement = describe_settlement(found_settlement, PIPELINE.name)
    assert "Waiting does not make the stream's answer right: 24 of 40 windows" in settlement
    assert "can be trusted" not in settlement
    agreement = parse_agreement(result.to_json())
    assert agreement is not None
    assert [(point.different, point.rows) for point in agreement.by_age[-1:]] == [(agreement.different, agreement.rows)]
    assert {
        (delay_cost.is_never_settled, delay_cost.settled_minutes)
        for delay_cost in price(agreement, 1.0)
        if delay_cost.bought
    } == {(True, None)}


def test_windows_without_late_records_can_be_trusted_when_they_close(settings: Settings) -> None:
    _, settlement = settle(settings, lake_of(clean()))

    assert (settlement.is_replay, settlement.trusted) == (None, None)  # its records were read in one epoch
    assert replace(settlement, is_replay=False).trusted == settlement.final
    assert (settlement.final.minutes, settlement.final.within.hits, settlement.final.within.of) == (60.0, HOURS, HOURS)
    assert [(point.minutes, point.largest) for point in settlement.log] == [(60.0, 0.0)]


def test_windows_younger_than_an_age_are_not_counted_at_it(settings: Settings) -> None:
    late = Sale(epoch=1, hour=0, kind="late")

    _, settlement = settle(settings, lake_of([*clean(99), late]))

    window_counts = {point.minutes: point.within.of for point in settlement.log}
    assert window_counts[60] == 99
    assert window_counts[1440] == CLOSED_UNTIL - 24
    assert settlement.log[-1].within.of == CLOSED_UNTIL - settlement.log[-1].minutes // 60


def test_windows_that_differ_for_another_cause_are_right_at_no_age(settings: Settings) -> None:
    lake = lake_of(clean())

    _, settlement = settle(settings, edit_batch_row(lake, 4, lambda row: row | {"revenue": row["revenue"] + 7}))

    assert (settlement.other_causes, settlement.final.within.hits, settlement.final.largest) == (1, HOURS - 1, 0.0)
    assert "1 window differs for another cause" in describe_settlement(settlement, PIPELINE.name)


def test_of_few_windows_nothing_is_concluded(settings: Settings) -> None:
    _, measured = settle(settings, lake_of(clean(1)))

    settlement = replace(measured, is_replay=False)
    assert settlement.trusted is None
    assert "Too few windows have closed" in describe_settlement(settlement, PIPELINE.name)
    assert "1 of 1 window" in describe_settlement(settlement, PIPELINE.name)


def test_windows_closed_by_the_final_epoch_have_not_grown_older_by_it(settings: Settings) -> None:
    lake = lake_of([*clean(12), Sale(epoch=1, hour=0, kind="late")])
    last_epoch = replace(lake.epochs[-1], watermark_after=micros(CLOSED_UNTIL), final=True)
    earlier_epoch = replace(lake.epochs[0], watermark_after=micros(12), max_event={0: micros(12)})
    epochs = (earlier_epoch, replace(last_epoch, watermark_before=micros(12), max_event={0: micros(12)}))

    _, settlement = settle(settings, replace(lake, epochs=epochs))

    assert {point.minutes: point.within.of for point in settlement.log} == {
        60.0: 11, 120.0: 10, 240.0: 8, 480.0: 4
    }  # fmt: skip
    assert settlement.final.within.of == 12


def test_a_heavy_tail_is_followed_as_far_as_windows_are_old(settings: Settings) -> None:
    """The record of window 0 comes 50 days after its start: missing at 45 days, there from 49 days 23 hours on."""
    arrived, cut = 24 * 50, 24 * 100
    late = Sale(epoch=1, hour=0, kind="late")
    lake = lake_of([*clean(12), Sale(hour=arrived), Sale(epoch=1, hour=cut), late])
    first_epoch, last_epoch = (
        replace(epoch, watermark_after=micros(hour), max_event={0: micros(hour)})
        for epoch, hour in zip(lake.epochs, (arrived, cut), strict=True)
    )
    closed = tuple(row for row in lake.batch if row["window_start"] < START + timedelta(hours=cut))
    run = replace(lake.run, watermark=micros(cut), computed=((micros(0), micros(cut)),))
    epochs = (first_epoch, replace(last_epoch, watermark_before=micros(arrived)))

    _, settlement = settle(settings, replace(lake, epochs=epochs, batch=closed, run=run))

    by_age = {point.minutes: point for point in settlement.log}
    assert by_age[45 * 1440].within.of - by_age[45 * 1440].within.hits == 1
    first_complete = 50 * 1440 - 60
    assert max(by_age) == pytest.approx(first_complete)
    assert max(by_age) > first_complete
    assert by_age[max(by_age)].within.hits == by_age[max(by_age)].within.of == 12


def test_the_last_age_is_the_greatest_that_ten_windows_have_reached(settings: Settings) -> None:
    late = [Sale(epoch=1, hour=hour, kind="late") for hour in range(CLOSED_UNTIL - 1)]

    _, settlement = settle(settings, lake_of([*clean(CLOSED_UNTIL - 1), *late]))

    known_points = [point for point in settlement.log if point.within.of >= FEW]
    assert (known_points[-1].minutes, known_points[-1].within.of) == ((CLOSED_UNTIL - FEW) * 60, FEW)


@pytest.mark.quick
def test_sessions_are_counted_from_their_closing_on(settings: Settings) -> None:
    visits = replace(
        PIPELINE,
        name="visits",
        window=Sessions(gap="30 minutes"),
        measures={"sales": Count()},
        lateness=Lateness(allowed="1 hour"),
    )
    sales = [Sale(hour=hour, shop=shop) for hour in range(0, 80, 4) for shop in "ab"]

    _, settlement = settle(settings, lake_of([*sales, Sale(epoch=2, hour=8, shop="a", kind="late")], visits), visits)

    assert (settlement.windows, settlement.final.within.hits) == (len(sales), len(sales) - 1)
    assert [round(point.minutes) for point in settlement.stream] == [90]  # the allowed hour and a further gap
    assert settlement.final.largest == pytest.approx(1 / 2)


def test_ages_that_a_fold_hides_are_left_out_and_make_no_other_finding(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = replace(PIPELINE, lateness=Lateness(out_of_orderness="10 minutes", allowed="3 hours"))
    log = draw_log(1, leaps=False)
    first_report, settlement_before = settle(settings, make_lake(log, judge(log, 3 * HOUR), pipeline), pipeline)

    monkeypatch.setattr("cutover.reconcile.compare.list_merged_spans", lambda _: [(0, len(log.marks) - 1)])
    report: Report = reconcile(PipelineLake(settings, pipeline))

    assert report.settlement is not None
    assert (report.run.run_id, report.run.repeats) == (first_report.run.run_id, 1)
    assert (report.settlement.final, report.settlement.log[-1]) == (settlement_before.final, settlement_before.log[-1])
    assert sum(point.within.of for point in report.settlement.stream) < sum(
        point.within.of for point in settlement_before.stream
    )
