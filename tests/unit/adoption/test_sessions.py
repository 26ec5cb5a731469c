"""Sessions of a job: their gap is the one that all of them end after a record, and every session is reproduced."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cutover.adoption.completion import complete_draft
from cutover.adoption.draft import Stated
from cutover.adoption.evidence import ReadBatch, ReadPlan
from cutover.adoption.hypotheses import verify
from cutover.adoption.search import list_gaps
from cutover.adoption.trial import JobReading, evaluate_draft
from cutover.cli.adopt import format_window
from cutover.definition import Sessions
from cutover.log.kafka import RawRecord
from cutover.timestamps import to_micros
from tests.unit.adoption.test_hypotheses import DRAFT, NOON, SHAPE, search, take_first

GAP = timedelta(minutes=10)
MINUTES = (0, 4, 9, 19, 40, 47, 80, 95, 99)  # exactly a gap after the one before is the same session
MOMENTS = [(key, NOON + timedelta(minutes=minute, seconds=key == "b")) for minute in MINUTES for key in "ab"]
SESSIONS = replace(
    DRAFT,
    window=Sessions(gap="15 minutes"),  # the size of the shortest session, if none has a single record
    start_column="began",
    end_column="ended",
    value_columns={"payments": "BIGINT"},
    output_mode="append",
)


def read_sessions() -> JobReading:
    records = [
        RawRecord(
            partition=0,
            offset=offset,
            log_time_micros=0,
            value=json.dumps({"merchant": key, "amount": "1.00", "status": "ok", "at": at.isoformat()}).encode(),
        )
        for offset, (key, at) in enumerate(MOMENTS)
    ]
    rows: list[dict[str, Any]] = []
    for key in "ab":
        for moment in (at for name, at in MOMENTS if name == key):
            if rows and rows[-1]["merchant"] == key and moment <= rows[-1]["ended"]:
                rows[-1]["ended"], rows[-1]["payments"] = moment + GAP, rows[-1]["payments"] + 1
            else:
                rows.append({"began": moment, "ended": moment + GAP, "merchant": key, "payments": 1})
    watermark = to_micros(NOON + timedelta(minutes=100))  # the last session of a key is open
    batch = ReadBatch(number=0, ends={0: len(records)}, judged_by=0, watermark=0)
    plan = ReadPlan(starts={0: 0}, batches=(batch,), whole_from=None, closed_until=watermark, records=len(records))
    written = [row for row in rows if to_micros(row["ended"]) <= watermark]
    return JobReading(plan=plan, records=[records], rows=written)


@pytest.mark.parametrize("gap", ["15 minutes", "10 minutes"])
def test_the_gap_is_found_and_every_session_is_reproduced(gap: str) -> None:
    reading, drafted = read_sessions(), replace(SESSIONS, window=Sessions(gap=gap))
    (trial,) = list_gaps(evaluate_draft(drafted, (), reading), Stated(), reading)
    assert format_window(trial.draft.window) == 'Sessions(gap="10 minutes")'

    matches, _ = search(trial.draft, reading)
    draft = complete_draft(matches[0], SHAPE, Stated(), take_first)
    check = verify(draft, reading)
    assert draft.where is None
    assert (check.is_exact, check.rows) == (True, len(reading.rows))
    assert dict(draft.list_columns()) == {"window_start": "began", "window_end": "ended"}


def test_a_session_in_several_rows_is_not_compared_and_another_end_is_a_difference() -> None:
    reading, drafted = read_sessions(), replace(SESSIONS, window=Sessions(gap="10 minutes"))
    matches, _ = search(drafted, reading)
    draft = complete_draft(matches[0], SHAPE, Stated(), take_first)
    first, *others = reading.rows
    parts = [{**first, "ended": first["began"] + GAP}, {**first, "began": first["began"] + timedelta(minutes=9)}]

    divided = verify(draft, replace(reading, rows=[*parts, *others]))
    assert (divided.is_exact, divided.rows) == (True, len(others))
    moved = verify(draft, replace(reading, rows=[{**first, "ended": first["ended"] - timedelta(minutes=1)}, *others]))
    assert not moved.is_exact
    assert {cell.key for cell in moved.differences} == {("a",)}
