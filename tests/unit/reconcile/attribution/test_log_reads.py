"""Records that are read for stretches of event time: all of these, up to the cut, and few others."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from cutover.definition import JsonField
from cutover.definition.windows.window_fn import Interval
from cutover.engine import queries
from cutover.lake.batch_runs import BatchRun
from cutover.log.kafka import RawRecord
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.log_rows import ReadPortion, list_read_portions, parse_event_time, read_portion
from cutover.reconcile.attribution.proof import find_gone_records
from cutover.records.reading.scan import Offsets
from cutover.settings import Settings
from tests.support.log.held_log import HeldLog
from tests.unit.reconcile.attribution.indexed import HOUR, PIPELINE, make_index_row, make_run, write_index

SECONDS = replace(PIPELINE, source=replace(PIPELINE.source, time_format="seconds"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"at": 5}', 5_000_000),
        (b'{"at": 0}', 0),
        (b'{"at": -5, "ad": "x"}', -5_000_000),
        (b'{"at": "5"}', None),
        (b'{"at": true}', None),
        (b'{"at": 5.5}', None),
        (b'{"at": null}', None),
        (b"{}", None),
        (b"[5]", None),
        (b"at", None),
        (b"\xff", None),
        (b"[" * 200_000, None),
        (b"", None),
        (None, None),
    ],
    ids=range(14),
)
def test_a_number_is_an_event_time_where_it_is_whole(value: bytes | None, expected: int | None) -> None:
    assert parse_event_time(value, SECONDS.source) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1970-01-01T00:00:05Z", 5_000_000), ("1970-01-01T01:00:05+01:00", 5_000_000), ("yesterday", None), (5, None)],
)
def test_a_text_is_an_event_time_where_it_is_an_instant(value: object, expected: int | None) -> None:
    assert parse_event_time(json.dumps({"at": value}).encode(), PIPELINE.source) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"p": {"at": 5}}, 5_000_000),
        ({"at": 5}, None),
        ({"p": [{"at": 5}]}, None),
        ({"p": None}, None),
        ({"p": {"at": "5"}}, None),
    ],
)
def test_an_event_time_is_read_at_its_place(value: object, expected: int | None) -> None:
    nested = replace(PIPELINE.source, fields={"at": JsonField(path="p.at", time_format="seconds")})

    assert parse_event_time(json.dumps(value).encode(), nested) == expected


def test_an_event_time_in_an_array_is_left_to_from_json() -> None:
    path = JsonField(path="p[0].at", time_format="seconds")
    value = b'{"p": [{"at": 5}, 7]}'

    assert parse_event_time(value, replace(PIPELINE.source, fields={"at": path})) == 5_000_000
    assert parse_event_time(value, replace(PIPELINE.source, fields={"at": path}, parse="from_json")) is None


def record(offset: int, second: int | None, *, partition: int = 0) -> RawRecord:
    value = b"no JSON" if second is None else json.dumps({"at": second}).encode()
    return RawRecord(partition=partition, offset=offset, log_time_micros=0, value=value)


def test_records_of_a_portions_ranges_or_of_unknown_time_are_read() -> None:
    stretches = [Interval(10_000_000, 20_000_000), Interval(20_000_000, 30_000_000), Interval(40_000_000, 50_000_000)]
    times = [9, 10, 19, 20, 30, 39, 40, 49, 50, None]
    log = HeldLog(records=[*(record(n, at) for n, at in enumerate(times)), record(3, 45, partition=1), record(99, 10)])
    portion = ReadPortion(stretches=(0, 2), reads=({0: (0, 10), 1: (3, 4)}, {1: (4, 9)}))

    selected = list(read_portion(log, SECONDS, make_run("a"), portion, stretches))

    assert [(selected_record.partition, selected_record.offset) for selected_record in selected] == [
        (0, 1),
        (0, 2),
        (0, 6),
        (0, 7),
        (0, 9),
        (1, 3),
    ]


def reads(
    settings: Settings, rows: Sequence[dict[str, object]], runs: Sequence[BatchRun], stretch: Interval, at: BatchRun
) -> tuple[Offsets, ...]:
    write_index(settings, rows, runs)
    with queries.open_duckdb() as connection:
        (portion,) = list_read_portions(PipelineLake(settings, PIPELINE), connection, at, [stretch])
    return portion.reads


@pytest.mark.parametrize(
    ("first_offset", "last_offset", "cut", "expected"),
    [
        (3, 7, {0: 100}, ({0: (3, 8)},)),
        (3, 7, {0: 8}, ({0: (3, 8)},)),
        (3, 7, {0: 6}, ({0: (3, 6)},)),  # further records came behind the cut
        (3, 7, {0: 4}, ({0: (3, 4)},)),
        (3, 7, {0: 3}, ()),
        (0, 7, {1: 50}, ()),  # a partition that came later
    ],
)
def test_records_are_read_up_to_the_cut(
    settings: Settings, first_offset: int, last_offset: int, cut: Mapping[int, int], expected: tuple[Offsets, ...]
) -> None:
    run = make_run("a", cut=cut)

    assert (
        reads(settings, [make_index_row("a", 0, first_offset, last_offset)], [run], Interval(0, HOUR), run) == expected
    )


def test_records_are_those_of_windows_that_meet_the_stretch_and_of_runs_up_to_the_one_that_is_compared(
    settings: Settings,
) -> None:
    earlier_run, run, later = (make_run(name, cut={0: 10_000_000}) for name in "abc")
    million = 1_000_000
    rows = [
        *(
            make_index_row("a", 0, 0, 1),
            make_index_row("b", 1, million, million),
            make_index_row("a", 2, 2 * million, 2 * million + 5),
        ),
        *(make_index_row("b", 3, 3 * million, 3 * million), make_index_row("c", 1, 4 * million, 4 * million)),
    ]

    assert reads(settings, rows, [earlier_run, run, later], Interval(HOUR, 2 * HOUR + 1), run) == (
        {0: (million, million + 1)},
        {0: (2 * million, 2 * million + 6)},
    )


@pytest.mark.parametrize(
    ("first_offset", "earliest", "expected"),
    [
        (5, {0: 5, 1: 9}, None),
        (0, {1: 9}, None),  # a partition of which the log has nothing
        (4, {0: 5}, "topic views, partition 0: expected the records from offset 4 on, the log starts at 5."),
    ],
)
def test_records_before_the_beginning_of_the_log_are_gone(
    first_offset: int, earliest: Mapping[int, int], expected: str | None
) -> None:
    portion = ReadPortion(stretches=(0,), reads=({1: (9, 10)}, {0: (first_offset, 9)}))

    assert find_gone_records(portion, {1: 9, **earliest}, "views") == expected
