"""Sessions are compared as what touches on either side: late rows explain what they make equal, and nothing else."""

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from cutover.batch.read.scan import HOURS
from cutover.definition import Count, Pipeline, Policy, Sessions, Sum, Topic
from cutover.definition.compile.fingerprint import lateness_fingerprint, result_fingerprint
from cutover.definition.windows.window_fn import Interval, merge_intervals
from cutover.lake.batch_runs import EXPIRED, BatchRun, Incomplete
from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.log.kafka import RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.attribution import attribute_causes
from cutover.reconcile.comparison import sides
from cutover.reconcile.preconditions import seal
from cutover.records.parsing import limits
from cutover.records.watermark import compute_late_margin, find_closed_end
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import Lake, in_force, log_of_lake, write
from tests.support.suite.depth import depth

HALF = 300_000_000  # of the gap, microseconds
GAP = 2 * HALF
PIPELINE = Pipeline(
    name="sales",
    source=Topic(name="sales", schema="shop string, amount bigint, at timestamp", event_time="at"),
    key=("shop",),
    window=Sessions("10 minutes"),
    measures={"sales": Count(), "revenue": Sum("amount")},
    policy=Policy(max_late_share=1.0),
)
BEGIN = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
EPOCHS = 3
Raw = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sale:
    """One record of an epoch; late if requested and allowed in its epoch."""

    epoch: int
    shop: str | None
    at: int
    amount: int
    is_late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session of a key, with its records."""

    shop: str | None
    window: Interval
    sales: tuple[Sale, ...]

    @property
    def late(self) -> int:
        return sum(sale.is_late for sale in self.sales)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Both sides at a watermark, with what the batch can no longer compute."""

    sales: tuple[Sale, ...]
    watermark: int
    whole_from: int | None

    @property
    def sessions(self) -> list[Session]:
        return sessions(self.sales)

    @property
    def compared_sessions(self) -> list[Session]:
        closed_end = find_closed_end(PIPELINE, self.watermark) or 0
        first_start = limits.MIN_MICROS if self.whole_from is None else self.whole_from
        return [
            session
            for session in self.sessions
            if session.window.end <= closed_end and session.window.start >= first_start
        ]


def sessions(sales: Sequence[Sale]) -> list[Session]:
    all_sessions = []
    for shop in sorted({sale.shop for sale in sales}, key=str):
        shop_sales = [sale for sale in sales if sale.shop == shop]
        for window in merge_intervals(Interval(sale.at, sale.at + GAP) for sale in shop_sales):
            session_sales = tuple(sale for sale in shop_sales if window.start <= sale.at <= window.end)
            all_sessions.append(Session(shop=shop, window=window, sales=session_sales))
    return all_sessions


@st.composite
def stories(draw: st.DrawFn) -> Story:
    watermark = BEGIN + draw(st.integers(8, 30)) * HALF
    # Halves of the gap, and a microsecond before and after: records touch exactly, fall short, bridge.
    times = st.tuples(st.integers(0, 20), st.integers(-1, 1)).map(lambda at: BEGIN + at[0] * HALF + at[1])
    shops = st.sampled_from(["a", "b", None])
    sale = st.builds(
        Sale, epoch=st.integers(0, 2), shop=shops, at=times, amount=st.integers(-9, 9), is_late=st.booleans()
    )
    drawn_sales = draw(st.lists(sale, min_size=1, max_size=14))
    sales = (
        replace(s, is_late=s.is_late and s.epoch > 0 and s.at + GAP + compute_late_margin(PIPELINE) <= watermark)
        for s in drawn_sales
    )
    frozen = draw(st.sampled_from([None, None, None, 3, 7]))
    return Story(sales=tuple(sales), watermark=watermark, whole_from=None if frozen is None else BEGIN + frozen * HALF)


def moment(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def row(shop: str | None, window: Interval, sales: Sequence[Sale]) -> Raw:
    return {
        "window_start": moment(window.start),
        "window_end": moment(window.end),
        "shop": shop,
        "sales": len(sales),
        "revenue": Decimal(sum(sale.amount for sale in sales)),
        "_n": len(sales),
    }


def lake_of(story: Story) -> Lake:
    """Return both sides; the stream's accepted rows are folded by epoch, as its driver has them."""
    ordered = sorted(story.sales, key=lambda sale: sale.epoch)
    partials = []
    for epoch in range(EPOCHS):
        accepted = [sale for sale in ordered if sale.epoch == epoch and not sale.is_late]
        partials += [
            row(session.shop, session.window, session.sales)
            | {"_kind": "partial", "_epoch": epoch, "_class": "accepted"}
            for session in sessions(accepted)
        ]
    for offset, sale in enumerate(ordered):
        if sale.is_late:
            position = {"partition": 0, "offset": offset, "event_time": moment(sale.at), "reason": None}
            alone = row(sale.shop, Interval(sale.at, sale.at + GAP), [sale])
            partials.append(
                alone | {"_kind": "ledger", "_epoch": sale.epoch, "_class": "late", "_positions": [position]}
            )
    closed_end = find_closed_end(PIPELINE, story.watermark) or 0
    final = [session for session in story.sessions if session.window.end <= closed_end]
    return Lake(
        partials=tuple(partials),
        epochs=tuple(_epoch(story, ordered, number) for number in range(EPOCHS)),
        batch=tuple(row(session.shop, session.window, session.sales) | {"_epoch": EPOCHS - 1} for session in final),
        run=_run(story, len(ordered), closed_end),
        transaction=EPOCHS - 1,
        log=tuple(_record(offset, sale) for offset, sale in enumerate(ordered)),
        ranges=tuple(_range(offset, sale) for offset, sale in enumerate(ordered)),
    )


def _record(offset: int, sale: Sale) -> RawRecord:
    fields = {"shop": sale.shop, "amount": sale.amount, "at": moment(sale.at).isoformat()}
    return RawRecord(partition=0, offset=offset, log_time_micros=sale.at, value=json.dumps(fields).encode())


def _range(offset: int, sale: Sale) -> Raw:
    hour = sale.at - sale.at % HOURS.size
    ends = {"window_start": moment(hour), "window_end": moment(hour + HOURS.size)}
    return {**ends, "first_offset": offset, "last_offset": offset, "_partition": 0, "_n": 1}


def _epoch(story: Story, ordered: Sequence[Sale], number: int) -> EpochRecord:
    epoch_sales = [sale for sale in ordered if sale.epoch == number]
    start = sum(sale.epoch < number for sale in ordered)
    late = sum(sale.is_late for sale in epoch_sales)
    configuration = in_force(PIPELINE)
    return EpochRecord(
        epoch=number,
        run_id="driver",
        topic="sales",
        topic_id="topic-1",
        cluster_id="cluster-1",
        start={0: start},
        end={0: start + len(epoch_sales)},
        max_event={0: story.watermark},
        watermark_before=story.watermark if number else None,
        watermark_after=story.watermark,
        counts={"accepted": len(epoch_sales) - late, "late": late},
        records=len(epoch_sales),
        seconds=0.1,
        result_fingerprint=result_fingerprint(PIPELINE),
        lateness_fingerprint=lateness_fingerprint(PIPELINE),
        in_force=configuration.digest,
        in_force_items=None if number else configuration.families,
    )


def _run(story: Story, records: int, closed_end: int) -> BatchRun:
    frozen = [] if story.whole_from is None else [story.whole_from - 1]
    return BatchRun(
        run_id="batch-1",
        epoch=EPOCHS - 1,
        stream_version=0,
        topic="sales",
        topic_id="topic-1",
        cluster_id="cluster-1",
        cut={0: records},
        scanned={0: (0, records)},
        watermark=story.watermark,
        result_fingerprint=result_fingerprint(PIPELINE),
        batch_fingerprint="same",
        in_force=in_force(PIPELINE).digest,
        in_force_items=in_force(PIPELINE).families,
        isolation="read_committed",
        computed=((limits.MIN_MICROS, closed_end),),
        incomplete=tuple(Incomplete(window_start=limits.MIN_MICROS, window_end=end, reason=EXPIRED) for end in frozen),
        finished="2026-01-05T00:00:00Z",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Summary of a comparison, before it writes a report."""

    compared: int
    different: int
    not_compared: int  # open, or not covered
    late: int  # records
    unexplained: int


def judge(lake: Lake) -> Comparison:
    with tempfile.TemporaryDirectory() as home:
        fresh = Settings(home=Path(home))
        write(fresh, lake, PIPELINE)
        pipeline_lake = PipelineLake(fresh, PIPELINE)
        evidence = seal.evaluate_seal(pipeline_lake, epoch=None).evidence
        assert evidence is not None
        with sides.open_sides(pipeline_lake, evidence) as opened:
            attribution = attribute_causes(pipeline_lake, evidence, opened, log_of_lake(lake))
            findings = attribution.findings
            assert not any("in doubt" in note for note in attribution.notes)
            return Comparison(
                compared=findings.plain.groups,
                different=findings.different_windows,
                not_compared=opened.open_windows + opened.incomplete_windows,
                late=findings.causes["late"].events,
                unexplained=findings.unexplained,
            )


def starts(some: Iterable[Session]) -> int:
    return len({session.window.start for session in some})


@depth(few=15, many=1500)
@given(story=stories())
def test_late_rows_explain_every_difference_of_what_is_judged(story: Story) -> None:
    late = [session for session in story.compared_sessions if session.late]

    expected = Comparison(
        compared=starts(story.compared_sessions),
        different=starts(late),
        not_compared=len(
            {session.window for session in story.sessions} - {session.window for session in story.compared_sessions}
        ),
        late=sum(session.late for session in late),
        unexplained=0,
    )
    assert judge(lake_of(story)) == expected


Edit = Callable[[Raw, Session], list[Raw]]
EDITS: dict[str, Edit] = {
    "is not there": lambda *_: [],
    "has another sum": lambda raw, _: [raw | {"revenue": raw["revenue"] + 1}],
    "ends earlier": lambda raw, _: [raw | {"window_end": raw["window_end"] - timedelta(microseconds=1)}],
    "begins later": lambda raw, _: [raw | {"window_start": raw["window_start"] + timedelta(microseconds=1)}],
    "is of another key": lambda raw, _: [raw | {"shop": "elsewhere"}],
    "is two": lambda raw, _: [
        raw | {"window_end": raw["window_start"]},
        raw | {"window_start": raw["window_end"], "sales": 0, "revenue": Decimal(0), "_n": 0},
    ],
    "has no late rows": lambda raw, session: [
        row(part.shop, part.window, part.sales) | {"_epoch": raw["_epoch"]}
        for part in sessions([sale for sale in session.sales if not sale.is_late])
    ],
}


@depth(few=15, many=1500)
@given(story=stories(), edit=st.sampled_from(sorted(EDITS)), place=st.integers(0, 100))
def test_an_edit_of_a_session_is_never_explained(story: Story, edit: str, place: int) -> None:
    lake = lake_of(story)
    candidates = [session for session in story.compared_sessions if session.late or edit != "has no late rows"]
    assume(candidates)
    edited_session = candidates[place % len(candidates)]
    edited: list[Raw] = []
    for raw in lake.batch:
        is_meant = (raw["shop"], raw["window_start"]) == (edited_session.shop, moment(edited_session.window.start))
        edited += EDITS[edit](raw, edited_session) if is_meant else [raw]

    assert judge(replace(lake, batch=tuple(edited))).unexplained > 0
