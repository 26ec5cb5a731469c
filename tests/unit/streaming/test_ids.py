"""Remembered ids of a stream: equivalent to a dictionary across epochs, restarts and expiry."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.model.pipeline import MINUTE, compute_oldest_remembered
from cutover.engine import queries
from cutover.lake.tables import commits, delta
from cutover.lake.tables.schemas import epoch_log_schema
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from cutover.streaming.compaction import merge
from cutover.streaming.microbatch import dedup_state
from cutover.streaming.microbatch.dedup_state import DedupState
from tests.support.suite.depth import depth

PIPELINE = Pipeline(
    name="p",
    source=Topic(
        name="t",
        schema="at timestamp, k string, i string NOT NULL",
        event_time="at",
        record_id="i",
        id_horizon="5 minutes",
    ),
    key=("k",),
    window=Fixed(hours=1),
    measures={"n": Count()},
)
HOUR = 60 * MINUTE
Candidate = tuple[str, int]
PAIRS = st.tuples(st.sampled_from("abcde"), st.sampled_from([-1, 0, 1, MINUTE, 3 * MINUTE, 7 * MINUTE, 2 * HOUR]))


def candidates(pairs: list[Candidate]) -> pa.Table:
    """Build candidate records of one partition from pairs, in order."""
    columns = {
        "id": pa.array([name for name, _ in pairs], pa.string()),
        "event_time": pa.array([event for _, event in pairs], pa.int64()),
        "partition": pa.array([0] * len(pairs), pa.int32()),
        "offset": pa.array(range(len(pairs)), pa.int64()),
    }
    return pa.table(columns)


def list_twins(lookup_result: dedup_state.LookupResult) -> tuple[set[int], list[Candidate]]:
    new = [(row["id"], row["event_time"]) for row in lookup_result.new.to_pylist()]
    return {row["offset"] for row in lookup_result.twins.to_pylist()}, sorted(new)


@pytest.fixture
def remembering(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> DedupState:
    monkeypatch.setattr(dedup_state, "RECENT", 4)
    return DedupState(PipelineLake(settings, PIPELINE))


@depth(few=8, many=100)
@given(epochs=st.lists(st.lists(PAIRS, max_size=6), max_size=5))
def test_twins_are_found_as_a_set_would(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, epochs: list[list[Candidate]]
) -> None:
    monkeypatch.setattr(dedup_state, "RECENT", 4)
    remembered, seen_pairs = DedupState(PipelineLake(settings, PIPELINE)), set[Candidate]()
    for epoch in epochs:
        expected, new = set(), []
        for offset, pair in enumerate(epoch):
            if pair in seen_pairs:
                expected.add(offset)
            else:
                new.append(pair)
            seen_pairs.add(pair)
        lookup = remembered.find_twins(candidates(epoch))
        assert list_twins(lookup) == (expected, sorted(new))
        remembered.remember(lookup.new, None)
    assert remembered.held == len(seen_pairs)


def test_conflicts_are_new_records_with_a_known_id_and_another_time(remembering: DedupState) -> None:
    first_lookup = remembering.find_twins(candidates([("a", 0), ("a", 1), ("b", 0), ("b", 0)]))
    remembering.remember(first_lookup.new, None)
    second = remembering.find_twins(candidates([("a", 2), ("b", 0), ("c", 0)]))

    assert (first_lookup.conflicts, second.conflicts) == (1, 1)


def test_complete_time_ranges_expire_behind_the_watermark(remembering: DedupState) -> None:
    new = [("a", 0), ("b", MINUTE), ("c", 9 * MINUTE), ("d", 9 * MINUTE), ("e", 9 * MINUTE)]
    lookup = remembering.find_twins(candidates(new))

    remembering.remember(lookup.new, 6 * MINUTE)

    assert compute_oldest_remembered(PIPELINE, 6 * MINUTE) == MINUTE
    assert remembering.held == 4


def commit_ids(settings: Settings, parts: list[tuple[int, list[Candidate]]]) -> Any:
    """Create an epoch log with the ids that some epochs saw first."""
    schema = epoch_log_schema(PIPELINE)
    table = delta.ensure(f"{settings.home}/stream", schema, partition_by=["_kind"])
    for epoch, pairs in parts:
        new = candidates(sorted(pairs, key=lambda pair: pair[1])).select(["id", "event_time"])
        commits.append(table, dedup_state.make_id_rows(new, PIPELINE, epoch))
    return delta.open_table(f"{settings.home}/stream")


def test_a_start_loads_committed_ids_that_have_not_expired(settings: Settings, remembering: DedupState) -> None:
    table = commit_ids(settings, [(0, [("a", 0), ("ß\x00", 7 * MINUTE + 3)]), (1, [("c", 7 * MINUTE), ("c", -1)])])

    remembering.begin(table, 12 * MINUTE)

    assert remembering.held == 2
    pairs = [("ß\x00", 7 * MINUTE + 3), ("c", 7 * MINUTE), ("c", 7 * MINUTE + 1)]
    assert list_twins(remembering.find_twins(candidates(pairs)))[0] == {0, 1}


def test_a_fold_drops_expired_ids_and_records_the_bound(settings: Settings) -> None:
    table = commit_ids(settings, [(0, [("a", 0), ("b", MINUTE)]), (1, [("c", 7 * MINUTE)])])
    connection, schema = queries.open_duckdb(), epoch_log_schema(PIPELINE)
    delta.bind(connection, "old", table)

    for minute in (MINUTE, 7 * MINUTE, MINUTE):  # a bound never goes back
        query = merge.retain_sql("old", schema, 0, minute)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE once AS {query}")
        connection.execute("CREATE OR REPLACE TEMP VIEW old AS FROM once")
        connection.execute("CREATE OR REPLACE TEMP TABLE kept AS FROM once")
        connection.execute("CREATE OR REPLACE TEMP VIEW old AS FROM kept")

    rows = connection.execute("SELECT _class, epoch_us(window_start), len(_ids) FROM old ORDER BY ALL").fetchall()
    assert rows == [("forgotten", 7 * MINUTE, None), (None, 7 * MINUTE, 1)]


def test_without_a_bound_a_fold_keeps_all(settings: Settings) -> None:
    table = commit_ids(settings, [(0, [("a", 0)]), (1, [("a", MINUTE)])])
    connection = queries.open_duckdb()
    delta.bind(connection, "old", table)

    query = merge.retain_sql("old", epoch_log_schema(PIPELINE), 0, None)

    assert len(connection.execute(query).fetchall()) == 2


def test_a_long_horizon_has_few_time_ranges(settings: Settings) -> None:
    days = replace(PIPELINE, source=replace(PIPELINE.source, id_horizon="4 days"))
    remembered = DedupState(PipelineLake(settings, days))

    lookup = remembered.find_twins(candidates([("a", minute * MINUTE) for minute in range(0, 4 * 24 * 60, 30)]))
    remembered.remember(lookup.new, None)
    remembered._flush()

    assert len(remembered._stretches) <= dedup_state.STRETCHES + 1
