"""A comparison as a year of flights yields it, made up: for tests of what shows it."""

import json
import random
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.lake.journal import Journal
from cutover.lake.journal_rows import ComparisonRow
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import (
    Cause,
    ComparedLog,
    Difference,
    Events,
    Expectation,
    Fingerprints,
    PolicyResult,
    Rows,
    SampleRecord,
    Seal,
    TablesRead,
    Verdict,
    Waterfall,
    WaterfallStep,
    Windows,
    WorstKey,
)
from cutover.reconcile.result.measurements import EpochPoint, LatenessBin, WindowPoint
from cutover.reconcile.result.parts import (
    AgreementPoint,
    CalendarDay,
    ErrorRates,
    KindRates,
    Rate,
    RunOfTrend,
    Settlement,
    SettlementPoint,
    rate,
)
from cutover.reconcile.result.report import Report
from tests.support.history.journal_rows import make_row
from tests.support.history.reports import make_report

START = datetime(2013, 1, 1, 10, tzinfo=UTC)
ORIGINS = ("EWR", "JFK", "LGA")
CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX", "FL", "AS", "F9", "HA")
LATE = 115


def iso(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def windows(rng: random.Random, count: int = 6_923) -> tuple[WindowPoint, ...]:
    starts = [START + timedelta(days=i // 19, hours=i % 19) for i in range(count)]
    late = set(rng.sample(range(count), LATE - 6))
    points = []
    for index, start in enumerate(starts):
        weekend = 0.78 if start.weekday() == 5 else 1.0
        busy = 62 if 2 <= index % 19 <= 14 else 24
        batch = int(busy * weekend + rng.gauss(0, 4)) + 2
        lost_rows = 1 if index in late else 0
        points.append(
            WindowPoint(window_start=iso(start), streaming=batch - lost_rows, batch=batch, different_rows=lost_rows)
        )
    return tuple(points)


def days(series: tuple[WindowPoint, ...]) -> tuple[CalendarDay, ...]:
    """Group windows by day; every ninth day also has rows of a second cause."""
    points_by_day: dict[str, list[WindowPoint]] = {}
    for point in series:
        points_by_day.setdefault(point.window_start[:10], []).append(point)
    calendar = []
    for number, (day, points) in enumerate(points_by_day.items()):
        differ = sum(1 for point in points if point.different_rows)
        causes = {"late": differ, "future": 1} if number % 9 == 0 else {"late": differ}
        calendar.append(CalendarDay(day=day, windows=len(points), different=differ, causes=causes if differ else {}))
    return tuple(calendar)


def trend(rng: random.Random, count: int = 24) -> tuple[RunOfTrend, ...]:
    """Return comparisons of three weeks: two that diverged, the last one current."""
    runs = []
    for index in range(count):
        bad = index in {7, 8}
        rows = 115 if index == count - 1 else rng.randint(60, 130)
        at = datetime(2026, 11, 21, 4, 2, 12, tzinfo=UTC) - timedelta(days=count - 1 - index)
        runs.append(
            RunOfTrend(
                run_id=f"run-{index}",
                at=iso(at),
                epoch=328 - 13 * (count - 1 - index),
                verdict="DIVERGED" if bad else "EXPLAINED",
                within=not bad,
                windows=6_923 - 280 * (count - 1 - index),
                different=rows - 6,
                rows=rows,
                unexplained=21 if bad else 0,
                late_share=0.00035,
            )
        )
    return tuple(runs)


def settlement() -> Settlement:
    """Return curves of a stream that closes after 90 minutes, and of a log that is complete after 12 hours."""
    early = ((15, 5_911, 0.02, 0.09, 0.14, 0.5), (30, 6_702, 0, 0.01, 0.04, 0.3), (60, 6_843, 0, 0, 5e-3, 0.2))
    closing = (90, 6_880, 0, 0, 4e-3, 0.11)
    late = ((120, 6_890, 0, 0, 2e-3, 0.07), (240, 6_910, 0, 0, 9e-4, 0.04), (480, 6_919, 0, 0, 0, 0.02))
    log = (*early, closing, *late, (720, 6_920, 0, 0, 0, 0))
    return Settlement(
        closing_minutes=90,
        windows=6_923,
        other_causes=2,
        log=tuple(_settlement_point(6_920 if point[0] > 90 else 6_923, *point) for point in log),
        stream=tuple(_settlement_point(6_923, *point) for point in (*early, closing)),
        agreement=(AgreementPoint(minutes=90, windows=6_923, rows=65_000, different=64),),
    )


def _settlement_point(of: int, minutes: float, hits: int, *missing: float) -> SettlementPoint:
    p50, p90, p99, largest = missing
    return SettlementPoint(minutes=minutes, within=rate(hits, of), p50=p50, p90=p90, p99=p99, largest=largest)


SELF_TEST = ErrorRates(
    at="2026-11-20T22:10:00Z",
    seed=7,
    passed=True,
    detection_rate=Rate(hits=412, of=412, lower=0.9911, upper=1.0),
    false_alarm_rate=Rate(hits=0, of=6_500, lower=0.0, upper=0.00057),
    right_cause_rate=Rate(hits=410, of=412, lower=0.9825, upper=0.9994),
    by_kind={
        "dropped rows": KindRates(
            detection_rate=Rate(hits=400, of=400, lower=0.9908, upper=1.0),
            false_alarm_rate=Rate(hits=0, of=6_000, lower=0.0, upper=0.00061),
            right_cause_rate=Rate(hits=386, of=388, lower=0.9815, upper=0.9994),
            refused=12,
            not_compared=5,
        ),
        "truncated table": KindRates(
            detection_rate=Rate(hits=12, of=12, lower=0.7354, upper=1.0),
            false_alarm_rate=Rate(hits=0, of=0, lower=0.0, upper=1.0),
            right_cause_rate=Rate(hits=12, of=12, lower=0.7354, upper=1.0),
        ),
    },
    refused=12,
    not_compared=5,
    drawn_in=3,
)


def epochs(rng: random.Random, count: int = 329) -> tuple[EpochPoint, ...]:
    series = []
    for epoch in range(count):
        newest = START + timedelta(days=365) * ((epoch + 1) / count)
        lag = 1800 + rng.random() * 1500 + (9_000 if rng.random() < 0.03 else 0)
        points = EpochPoint(
            epoch=epoch,
            watermark=iso(newest - timedelta(seconds=lag)),
            newest_event=iso(newest),
            lag=lag,
            records=1000 if epoch < count - 1 else 521,
            seconds=0.3,
        )
        series.append(points)
    return tuple(series)


def differences(rng: random.Random, count: int = 100) -> tuple[Difference, ...]:
    listed_differences = []
    for index in range(count):
        start = START + timedelta(days=index * 3.6)
        batch = rng.randint(1, 14)
        is_count = index % 2 == 0
        minutes = rng.randint(130, 800)
        listed_differences.append(
            Difference(
                window_start=iso(start.replace(minute=0, second=0, microsecond=0)),
                key={"origin": rng.choice(ORIGINS), "carrier": rng.choice(CARRIERS)},
                measure="flights" if is_count else "delay",
                kind="missing" if batch == 1 and is_count else "changed",
                streaming=(None if batch == 1 else batch - 1) if is_count else 212 - minutes,
                batch=batch if is_count else 212,
                difference=-1 if is_count else -minutes,
                cause="late",
            )
        )
    return tuple(sorted(listed_differences, key=lambda d: str(d.window_start)))


def samples(rng: random.Random, count: int = 20) -> tuple[SampleRecord, ...]:
    late_records = []
    for _ in range(count):
        start = START + timedelta(hours=rng.randint(0, 8700))
        late_records.append(
            SampleRecord(
                class_="late",
                partition=rng.randint(0, 3),
                offset=rng.randint(0, 82_000),
                event_time=iso(start + timedelta(minutes=rng.randint(0, 59))),
                window_start=iso(start),
                key={"origin": rng.choice(ORIGINS), "carrier": rng.choice(CARRIERS)},
                reason=None,
            )
        )
    bad = SampleRecord(
        class_="malformed", partition=2, offset=7, event_time=None, window_start=None, key={}, reason="missing"
    )
    return (bad, *late_records)


def seal() -> Seal:
    cut = {"0": 82_131, "1": 82_130, "2": 82_130, "3": 82_130}
    log = ComparedLog(topic="flights", topic_id="Zt1xJ0yzR1yV7s2wq0cQ3A", cluster_id="4L6g3nShT-eMCtK--X86sw", cut=cut)
    prints = Fingerprints(
        definition="7c1e0b92d4aa",
        streaming=("7c1e0b92d4aa",),
        batch="7c1e0b92d4aa",
        lateness="b2f0439c17de",
        batch_definition="same",
    )
    return Seal(
        epoch=328,
        logs=(log,),
        fingerprints=prints,
        stream_version=0,
        isolation="read_committed",
        watermark="2014-01-01T03:29:00Z",
        epochs=329,
    )


def waterfalls() -> tuple[Waterfall, ...]:
    def waterfall(measure: str, batch: int, late: int) -> Waterfall:
        steps = (
            WaterfallStep(cause="late", amount=late),
            WaterfallStep(cause="future", amount=0),
            WaterfallStep(cause="malformed", amount=0),
            WaterfallStep(cause="unexplained", amount=0),
        )
        return Waterfall(measure=measure, batch=batch, steps=steps, streaming=batch + late)

    return waterfall("flights", 328_517, -LATE), waterfall("delay", 4_152_200, -61_422)


NO_CAUSES = ("future", "duplicate", "malformed", "unexplained")
WINDOWS = Windows(
    compared=6_923,
    different=109,
    open=5,
    incomplete=0,
    first="2013-01-01T10:00:00Z",
    last="2014-01-01T01:00:00Z",
)
WORST_KEYS = tuple(
    WorstKey(key={"origin": o, "carrier": c}, rows=n, measure="flights", difference=-n)
    for o, c, n in (("EWR", "EV", 19), ("JFK", "B6", 14), ("EWR", "UA", 11), ("LGA", None, 9), ("JFK", "9E", 8))
)
CONTRACT = (
    Expectation(
        expectation="flights is between 1 and 200", severity="critical", success=True, observed="min 1, max 41"
    ),
    Expectation(expectation="origin is one of EWR, JFK, LGA", severity="critical", success=True, observed="3 values"),
    Expectation(expectation="worst is between -60 and 1400", severity="warning", success=True, observed="-43 to 1301"),
)


@cache
def flights() -> Report:
    """Return a year of flights: every difference late, within policy."""
    rng = random.Random(13)  # noqa: S311 -- made-up data, the same every time
    edges = (0, 30, 60, 120, 180, 240, 360, 480, 720, 1440)
    counts = (34, 22, 25, 12, 8, 7, 4, 2, 1)
    bins = zip(edges, edges[1:], counts, strict=False)
    series = windows(rng)
    return make_report(
        pipeline="flights",
        run_id="20261121T040212Z-8f31",
        at="2026-11-21T04:02:12Z",
        tables=TablesRead(stream=335, batch=1, batch_ledger=1, batch_run="batch-20261121T035500-1f2e"),
        report="flights/20261121T040212Z-8f31.json",
        page="flights/20261121T040212Z-8f31.html",
        verdict=Verdict.EXPLAINED,
        exit_code=0,
        sentence="Streaming and batch differ in 115 of 121,907 rows; all of it is explained: 115 records came late.",
        seal=seal(),
        windows=WINDOWS,
        rows=Rows(compared=121_907, missing=9, extra=0, changed=106),
        events=Events(accepted=328_402, late=LATE, malformed=1, filtered=3, unknown_fields=0),
        causes={"late": Cause(rows=115, events=LATE)} | dict.fromkeys(NO_CAUSES, Cause()),
        policy=PolicyResult(max_late_share=1e-3, late_share=0.00035),
        waterfall=waterfalls(),
        window_series=series,
        days=days(series),
        settlement=settlement(),
        self_test=SELF_TEST,
        trend=trend(random.Random(5)),  # noqa: S311 -- made-up data
        lateness_histogram=tuple(LatenessBin(from_minutes=a, to_minutes=b, events=n) for a, b, n in bins),
        epochs_series=epochs(rng),
        worst_keys=WORST_KEYS,
        samples=samples(rng),
        differences=differences(rng),
        differences_total=230,
        contract=CONTRACT,
        notes=(
            "The log was replayed with at most 1,000 records an epoch; larger epochs judge fewer records late.",
            "5 windows are still open at the cut and were not judged.",
        ),
        seconds=3.4,
    )


def record_line(lake: PipelineLake, epoch: int, **changes: Any) -> None:
    """Append a comparison within policy to the history of a pipeline; `changes` are of its row."""
    values = {
        "run_id": f"run-{epoch}",
        "pipeline": lake.name,
        "at": datetime.now(UTC),
        "epoch": epoch,
        "result_fingerprint": result_fingerprint(lake.pipeline),
        "stream_version": 0,
        "verdict": "CONSISTENT",
        "exit_code": 0,
        "comparison_key": f"cut-{epoch}",
        "content_digest": "agree",
        "result": json.dumps({"windows": {"compared": 2}, "causes": {}}),
    }
    Journal(lake.settings, lake.name, ComparisonRow).append(make_row(ComparisonRow, **values | changes))
