"""Window and key of a draft by the columns of a table and the records of a topic, and tables that do not fit."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import duckdb
import pytest

from cutover.adoption.draft import JobDraft, Stated
from cutover.adoption.evidence import Aggregate, QueryShape, StreamTable, list_job_columns
from cutover.adoption.proposal import begin_draft, propose
from cutover.adoption.sample import RecordSampler
from cutover.cli.adopt import format_window
from cutover.errors import DefinitionError
from cutover.log.kafka import RawRecord
from cutover.positions.spark_checkpoint import StateField
from tests.unit.adoption.test_hypotheses import PAYMENTS, take_first

NOON, LATER = datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(2026, 3, 1, 12, 25, tzinfo=UTC)
MERCHANT = StateField(name="merchant", type="string", nullable=True, is_key=True)
DAY = StateField(name="day", type="date", nullable=True, is_key=True)


def make_shape(*, has_sessions: bool = False, day: StateField | None = None) -> QueryShape:
    return QueryShape(
        topic="payments",
        is_grouped=True,
        keys=(MERCHANT,),
        aggregates=(Aggregate(measures=("Count",), buffers=("count",)),),
        deduplicated_by=None,
        deduplicated_time=None,
        delay=None,
        drops_late=False,
        has_sessions=has_sessions,
        day=day,
    )


def draft_job(shape: QueryShape, columns: Mapping[str, Any], *, records: int = 20) -> JobDraft:
    """Draft a job whose table has one row."""
    sampler = RecordSampler()
    for offset, each in enumerate(PAYMENTS[:records]):
        sampler.add(RawRecord(partition=0, offset=offset, log_time_micros=0, value=json.dumps(each).encode()))
    sample = sampler.infer()
    with duckdb.connect() as connection:
        selected = ", ".join(f'? AS "{name}"' for name in columns)
        connection.execute(f"CREATE TABLE job AS SELECT {selected}", list(columns.values()))
        table = StreamTable(
            place="/t",
            version=1,
            batch=0,
            columns=dict(list_job_columns(connection)),
            output_mode="complete",
            operation="WRITE",
            connection=connection,
        )
        draft = begin_draft("payments", "/c", shape, sample, Stated())
        return propose(draft, shape, table, sample, stated=Stated(), choose=take_first)


def test_sessions_have_the_gap_of_the_shortest_one_until_the_log_shows_another() -> None:
    draft = draft_job(
        make_shape(has_sessions=True), {"session_window": {"start": NOON, "end": LATER}, "merchant": "a", "n": 1}
    )

    assert format_window(draft.window) == 'Sessions(gap="25 minutes")'
    assert (draft.start_column, draft.end_column) == ("session_window.start", "session_window.end")
    assert list(draft.value_columns) == ["n"]
    assert not list(draft.list_columns())


def test_the_day_of_a_query_is_the_column_of_its_name() -> None:
    columns = {"loaded_day": date(2026, 3, 2), "day": date(2026, 3, 1), "merchant": "a", "n": 1}
    draft = draft_job(make_shape(day=DAY), columns)

    assert (draft.start_column, [part.column for part in draft.key]) == ("day", ["merchant"])


@pytest.mark.parametrize(
    ("shape", "columns", "reason"),
    [
        (make_shape(has_sessions=True), {"began": NOON, "merchant": "a", "n": 1}, "start and the end of a session"),
        (make_shape(), {"window_start": NOON, "shop": "unknown", "n": 1}, "a column with values of the key `merchant`"),
        (make_shape(), {"merchant": "a", "n": 1}, "a column with the start of a window, it has merchant, n"),
    ],
)
def test_a_table_of_another_shape_is_rejected_with_its_columns(
    shape: QueryShape, columns: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises(DefinitionError, match=reason):
        draft_job(shape, columns)


def test_a_topic_without_records_is_rejected() -> None:
    with pytest.raises(DefinitionError, match="expected records by which a definition can be tested, it holds none"):
        draft_job(make_shape(), {"window_start": NOON, "merchant": "a", "n": 1}, records=0)


@pytest.mark.parametrize("start", ["slot", "begin_of_hour", "t"])
@pytest.mark.parametrize("run", ["updated_at", "written_date", "start_of_batch", "loaded"])
def test_a_time_of_the_jobs_run_is_no_start_of_windows(start: str, run: str) -> None:
    columns = {
        start: NOON,
        "merchant": "a",
        "n": 1,
        "window_end": NOON + timedelta(hours=1),
        run: NOON.replace(microsecond=123_000),
    }

    draft = draft_job(make_shape(), columns)

    assert (draft.start_column, draft.window.reach) == (start, 3_600_000_000)
