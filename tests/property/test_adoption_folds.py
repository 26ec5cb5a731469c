"""Folds of hypotheses, which place records once for all filters, against the reference that classifies each one."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cutover.adoption.draft import NO_FILTER, Filter, JobDraft
from cutover.adoption.evidence import ReadBatch, ReadPlan
from cutover.adoption.trial import Fold, JobReading, evaluate_draft
from cutover.definition import Fixed, Sessions, Sliding
from cutover.definition.windows.kinds import SlidingWindows
from cutover.log.kafka import RawRecord
from cutover.records.reference.run import compute_reference
from cutover.timestamps import format_micros
from tests.support.suite.depth import depth
from tests.unit.adoption.test_hypotheses import DRAFT

MINUTE = 60_000_000
TYPES = {"id": "bigint", "merchant": "string", "status": "string", "at": "timestamp"}
SETTLED = Filter(sql="status = 'ok'", passes=lambda values: values["status"] == "ok")
ROWS = st.tuples(
    st.integers(0, 6), st.sampled_from("ab"), st.sampled_from(["ok", "bad", None]), st.integers(0, 300), st.booleans()
)


@depth(40, 1_000)
@given(
    batches=st.lists(st.lists(ROWS, max_size=8), min_size=1, max_size=5),
    watermarks=st.lists(st.integers(0, 300), min_size=5, max_size=5).map(sorted),
    window=st.sampled_from(
        [Fixed(hours=1), Sliding(size="1 hour", every="20 minutes", offset="5 minutes"), Sessions(gap="10 minutes")]
    ),
    by_id=st.booleans(),
    is_complete=st.booleans(),
    condition=st.sampled_from([NO_FILTER, SETTLED]),
)
def test_a_fold_counts_the_records_that_the_reference_accepts(
    batches: list[list[tuple[int, str, str | None, int, bool]]],
    watermarks: list[int],
    window: SlidingWindows | Sessions,
    by_id: bool,
    is_complete: bool,
    condition: Filter,
) -> None:
    draft: JobDraft = replace(
        DRAFT,
        types=TYPES,
        window=window,
        record_id="id" if by_id else None,
        output_mode="complete" if is_complete else "update",
        where=None,
    )
    reading = read_batches(batches, watermarks)
    fold = Fold(evaluate_draft(draft, (), reading), reading)
    counts = {key: len(places) for key, places in fold.group(condition).items()}

    reference = compute_reference(
        replace(draft, where=condition.sql).make_pipeline(),
        [record for batch in reading.records for record in batch],
        epochs=[batch.ends for batch in reading.plan.batches],
        watermarks=[None if draft.keeps_late else batch.judged_by for batch in reading.plan.batches],
    )
    expected = {
        (start, (*key, end) if draft.window.merges else key): row.n for (start, end, key), row in reference.rows.items()
    }
    assert counts == expected


def read_batches(batches: list[list[tuple[int, str, str | None, int, bool]]], watermarks: list[int]) -> JobReading:
    """Return drawn records, some of them without an event time, and batches with drawn watermarks."""
    read, ends, offset = [], [], 0
    for batch in batches:
        records = []
        for number, merchant, status, minute, is_timed in batch:
            time = format_micros(minute * MINUTE) if is_timed else None
            value = {"id": number, "merchant": merchant, "status": status, "at": time}
            encoded = json.dumps(value).encode()
            records.append(RawRecord(partition=0, offset=offset, log_time_micros=0, value=encoded))
            offset += 1
        read.append(records)
        ends.append({0: offset})
    planned = tuple(
        ReadBatch(number=place, ends=end, judged_by=watermark * MINUTE, watermark=watermark * MINUTE)
        for place, (end, watermark) in enumerate(zip(ends, watermarks, strict=False))
    )
    plan = ReadPlan(starts={0: 0}, batches=planned, whole_from=None, closed_until=0, records=offset)
    return JobReading(plan=plan, records=read, rows=[])
