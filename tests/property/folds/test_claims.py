"""For any drawn log, the records that the stream counted give its value, and those that batch counts give batch's."""

import json
from itertools import cycle
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutover.definition import Topic
from cutover.definition.model.topic import ParseForm
from cutover.reconcile.attribution import log_rows
from cutover.records import reference
from cutover.records.reference.parse import parse_record
from tests.support.comparison.claimed import fold_log_by_place, rows_at
from tests.support.log.logs import JOINS, WINDOWS, Joined, borders, ends_split, event_logs, pipelines, split, windows
from tests.support.suite.depth import depth


@pytest.mark.quick
@pytest.mark.parametrize(
    ("kind", "joined"),
    [*((kind, None) for kind in WINDOWS), *zip(cycle(WINDOWS), JOINS, strict=False)],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else str(value),
)
@depth(few=2, many=200)
@given(data=st.data())
def test_the_log_bears_out_what_both_paths_made_of_it(kind: str, joined: Joined | None, data: st.DataObject) -> None:
    raw_log = data.draw(event_logs(max_size=60))
    pipeline = data.draw(pipelines(joined=joined, window=windows(kind)))
    log = split(raw_log, pipeline)
    ends = [ends_split(end, pipeline) for end in data.draw(borders(raw_log, max_count=5))]
    stream, batch = reference.compute_reference(pipeline, log, epochs=ends), reference.compute_reference(pipeline, log)

    for place, claim in fold_log_by_place(pipeline, log, stream, batch).items():
        assert claim.are_twins_sound
        assert log_rows.matches_log(claim.stages[0], rows_at(stream, place))
        assert log_rows.matches_log(claim.batch, rows_at(batch, place))
        if pipeline.source.record_id is None:
            assert log_rows.matches_log(claim.stages[1], rows_at(batch, place))


TIMES: st.SearchStrategy[object] = st.one_of(
    st.integers(-(2**70), 2**70),
    st.sampled_from([None, True, 1.5, 1e3, [], {}, ""]),
    st.sampled_from(["2026-01-01", "2026-01-01T01:02:03.4567891+05:30", "2026-02-30T00:00:00Z", "9999-01-01T00:00Z"]),
)


@depth(few=100, many=5_000)
@given(time=TIMES, spaces=st.text(" \n\t", max_size=2), end=st.sampled_from(["", "}", " x", "\x00"]))
@pytest.mark.parametrize("parse", get_args(ParseForm))
@pytest.mark.parametrize("time_format", ["seconds", "millis", "micros", "nanos", "iso", "yyyy-MM-dd"])
def test_no_record_is_passed_over_that_the_parser_puts_elsewhere(
    time_format: str, parse: ParseForm, time: object, spaces: str, end: str
) -> None:
    topic = Topic(name="t", schema="at timestamp, v int", event_time="at", time_format=time_format, parse=parse)
    value = f'{spaces}{{"v": 1, "at": 7, "at":{json.dumps(time)}}}{end}'.encode()

    guessed, strict = log_rows.parse_event_time(value, topic), parse_record(value, topic)

    assert strict.reason is not None or guessed in {None, strict.values["at"]}
