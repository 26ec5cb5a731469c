"""Definitions whose streaming path is a team's own query: what could not be repeated exactly is rejected."""

from dataclasses import replace
from typing import Any

import pytest

from cutover.definition import (
    ApproxDistinct,
    Avg,
    Count,
    Daily,
    Delta,
    First,
    Fixed,
    Global,
    Join,
    Lateness,
    Lookup,
    Pipeline,
    SelfJoin,
    Sessions,
    Sliding,
    SparkStream,
    Sum,
    Topic,
)
from cutover.definition.checks.definition import check_definition
from cutover.definition.compile.fingerprint import lateness_fingerprint
from cutover.definition.model.pipeline import FOLLOWED_LATENESS, compute_oldest_remembered
from cutover.errors import DefinitionError
from cutover.lake.recorded_definitions import decode_definition, encode_definition
from cutover.records.watermark import compute_late_margin

STREAM_FIELDS: dict[str, Any] = {
    "table": Delta("/data/table"),
    "checkpoint": "s3://jobs/checkpoint",
    "output_mode": "update",
}
STREAM = SparkStream(**STREAM_FIELDS)
OF_RECORDS = SparkStream(**STREAM_FIELDS, row_per_record=True)
APPENDED = SparkStream(**{**STREAM_FIELDS, "output_mode": "append"})
PAIRS = replace(APPENDED, row_per_record=True)
SESSIONS = Sessions(gap="1 hour")
FOLLOWED = Pipeline(
    name="payments",
    source=Topic(name="payments", schema="id bigint NOT NULL, shop string, at timestamp", event_time="at"),
    key=("shop",),
    window=Fixed(hours=1),
    measures={"n": Count(), "ids": Sum("id")},
    stream=STREAM,
)

JOIN = Join(
    right=replace(FOLLOWED.source, name="clicks"), on={"shop": "shop"}, between=("0 s", "10 minutes"), ids=("id", "id")
)


def test_a_job_that_joins_two_topics_is_accepted_and_recorded() -> None:
    for between, times in {
        ("0 s", "10 minutes"): ["at"],
        ("-1 hour", "-1 minute"): ["right_at"],
        ("-1 hour", "1 ms"): ["at", "right_at"],
    }.items():
        columns = {name: f"{name}_column" for name in [*times, "right_id", "ids"]}
        joined = replace(FOLLOWED, join=replace(JOIN, between=between), stream=replace(PAIRS, columns=columns))
        check_definition(joined)
        assert decode_definition(encode_definition(joined)) == joined


def test_a_record_of_a_followed_join_is_late_by_its_own_time() -> None:
    joined = replace(FOLLOWED, join=JOIN, stream=PAIRS)

    assert compute_oldest_remembered(joined, 90_000_000) == 90_000_001
    assert compute_oldest_remembered(replace(joined, stream=None), 90_000_000) is None


def test_a_job_with_fixed_or_sliding_windows_is_accepted_and_recorded() -> None:
    sliding = replace(FOLLOWED, window=Sliding(size="1 hour", every="20 minutes"))
    for pipeline in (FOLLOWED, sliding, replace(FOLLOWED, stream=replace(STREAM, columns={"n": "payments"}))):
        check_definition(pipeline)
        assert decode_definition(encode_definition(pipeline)) == pipeline
        assert pipeline.lateness == FOLLOWED_LATENESS


def test_a_job_with_sessions_is_accepted_and_recorded() -> None:
    columns = {"window_start": "began", "window_end": "ended"}
    appended = replace(FOLLOWED, window=SESSIONS, stream=replace(APPENDED, columns=columns))
    complete = replace(appended, stream=replace(APPENDED, output_mode="complete"), measures={"mean": Avg("id")})
    for pipeline in (appended, complete):
        check_definition(pipeline)
        assert decode_definition(encode_definition(pipeline)) == pipeline


def test_a_record_of_a_followed_session_is_late_at_the_end_of_its_own_session() -> None:
    followed = replace(FOLLOWED, window=SESSIONS, stream=APPENDED)
    own = replace(followed, stream=None, lateness=FOLLOWED_LATENESS)

    assert (compute_late_margin(followed), compute_late_margin(own)) == (0, 1)


def test_a_job_with_a_row_per_record_or_with_ids_is_accepted_and_recorded() -> None:
    with_ids = replace(FOLLOWED, source=replace(FOLLOWED.source, record_id="id"))
    of_records = replace(FOLLOWED, stream=OF_RECORDS, measures={"n": Count(), "ids": First("id")})
    named = replace(with_ids, stream=replace(OF_RECORDS, columns={"at": "paid_at", "ids": "id"}))
    for pipeline in (with_ids, of_records, named, replace(FOLLOWED, stream=replace(STREAM, latest_by="batch"))):
        check_definition(pipeline)
        assert decode_definition(encode_definition(pipeline)) == pipeline


def test_a_followed_job_forgets_ids_up_to_its_watermark() -> None:
    with_ids = replace(FOLLOWED, source=replace(FOLLOWED.source, record_id="id"))

    assert compute_oldest_remembered(with_ids, 90_000_000) == 90_000_001
    assert compute_oldest_remembered(with_ids, None) is None
    assert compute_oldest_remembered(FOLLOWED, 90_000_000) is None


def test_a_version_of_the_stream_never_mixes_two_ways_to_judge() -> None:
    own = replace(FOLLOWED, stream=None, lateness=FOLLOWED_LATENESS)
    complete = replace(FOLLOWED, stream=SparkStream(**{**STREAM_FIELDS, "output_mode": "complete"}))
    single = replace(FOLLOWED, stream=replace(STREAM, single_watermark=True))
    append = replace(FOLLOWED, stream=SparkStream(**{**STREAM_FIELDS, "output_mode": "append"}))

    assert len({lateness_fingerprint(pipeline) for pipeline in (own, FOLLOWED, complete, single)}) == 4
    assert lateness_fingerprint(append) == lateness_fingerprint(FOLLOWED)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": Sessions(gap="1 hour")}, "stream.output_mode: expected append or complete with Sessions"),
        (
            {"window": SESSIONS, "stream": APPENDED, "measures": {"m": Avg("id")}},
            "measures.m: expected one of Count, Max",
        ),
        (
            {"window": SESSIONS, "stream": replace(APPENDED, latest_by="batch")},
            "stream.latest_by: expected none with Sessions",
        ),
        ({"window": SESSIONS, "stream": replace(OF_RECORDS, output_mode="append")}, "window: expected Fixed"),
        ({"window": Daily("Europe/Berlin")}, "window: expected Fixed"),
        ({"window": Global()}, "window: expected Fixed"),
        ({"measures": {"ids": ApproxDistinct("id")}}, "measures.ids: expected one of"),
        ({"measures": {"ids": First("id")}}, "measures.ids: expected one of"),
        ({"join": SelfJoin(on=("shop",), left="id > 0", right="id > 1")}, "join: expected Join(...) with stream"),
        ({"join": replace(JOIN, between=None, ids=None), "stream": PAIRS}, "join.between: expected the range"),
        ({"join": JOIN, "stream": APPENDED}, "stream.row_per_record: expected True with join"),
        ({"join": replace(JOIN, ids=None), "stream": PAIRS}, "join.ids: expected a column of each side"),
        ({"join": JOIN, "stream": OF_RECORDS}, "stream.output_mode: expected append with join"),
        ({"join": JOIN, "stream": PAIRS, "measures": {"m": Avg("id")}}, "measures.m: expected one of Count, First"),
        (
            {"join": JOIN, "stream": replace(PAIRS, columns={"right_at": "clicked_at"})},
            "stream.columns: expected names of at, shop, id, right_id, ids",
        ),
        ({"lookups": {"shops": Lookup(table="shops", on={"shop": "shop"}, columns={"city": "string"})}}, "lookups"),
        ({"source": replace(FOLLOWED.source, record_id="id", id_horizon="1 day")}, "source.id_horizon: expected none"),
        ({"delivery": "at_least_once"}, "delivery: expected exactly_once"),
        ({"lateness": Lateness(out_of_orderness="1 minute")}, "lateness: expected none"),
        (
            {"stream": replace(STREAM, checkpoint="checkpoints/payments")},
            "stream.checkpoint: expected an absolute path",
        ),
        ({"stream": replace(STREAM, table=Delta("lake/payments"))}, "stream.table: expected an absolute path"),
        (
            {"stream": replace(STREAM, columns={"total": "n"})},
            "stream.columns: expected names of window_start, shop, n",
        ),
        (
            {"stream": SparkStream(**{**STREAM_FIELDS, "output_mode": "merge"})},
            "stream.output_mode: expected append, complete or update",
        ),
        ({"stream": "/data/table"}, "stream: expected SparkStream"),
        (
            {"stream": SparkStream(**{**STREAM_FIELDS, "output_mode": "complete"}, row_per_record=True)},
            "stream.output_mode: expected append or update with row_per_record",
        ),
        (
            {"window": Sliding(size="1 hour", every="20 minutes"), "stream": OF_RECORDS},
            "window: expected Fixed(...) with row_per_record",
        ),
        ({"measures": {"ids": Avg("id")}, "stream": OF_RECORDS}, "measures.ids: expected one of Count, First, Last"),
        ({"stream": replace(OF_RECORDS, latest_by="batch")}, "stream.latest_by: expected none with row_per_record"),
        (
            {"stream": replace(OF_RECORDS, columns={"window_start": "hour"})},
            "stream.columns: expected names of at, shop, ids",
        ),
    ],
)
def test_what_a_checkpoint_does_not_determine_is_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError) as rejected:
        check_definition(replace(FOLLOWED, **changes))

    assert message in str(rejected.value).replace("`", "")


def test_messages_name_the_command_that_repeats_a_job() -> None:
    assert FOLLOWED.driver_command == "cutover follow payments"
    assert replace(FOLLOWED, stream=None).driver_command == "cutover stream payments"
