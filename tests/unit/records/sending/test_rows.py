"""Records from lines of a file: types, keys, log times, and errors raised before anything is sent."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.errors import DefinitionError
from cutover.records import record_files
from cutover.records.classes import Reason
from cutover.records.reference.parse import parse_record
from cutover.records.sending.rows import (
    ALL_TIMES,
    MAX_MESSAGE,
    FileContent,
    FileRecord,
    LogTimeRange,
    Malformed,
    read_rows,
)

TOPIC = Topic(
    name="t",
    schema="at timestamp, seen timestamp, k string, i int, x double, d decimal(9,2), b boolean, day date",
    event_time="at",
    log_time="seen",
    time_format="seconds",
)
PIPELINE = Pipeline(name="p", source=TOPIC, key=("k", "i"), window=Fixed(hours=1), measures={"n": Count()})
HEADER = "at,seen,k,i,x,d,b,day\n"


def rows(
    path: Path, content: FileContent | None = None, *, of: Pipeline = PIPELINE, log_times: LogTimeRange = ALL_TIMES
) -> list[FileRecord]:
    return list(read_rows(path, of, content or FileContent(), log_times, lambda _: None))


def csv_file(folder: Path, body: str, header: str = HEADER) -> Path:
    path = folder / "a.csv"
    path.write_bytes((header + body).encode())
    return path


def json_file(folder: Path, body: bytes) -> Path:
    path = folder / "a.jsonl"
    path.write_bytes(body)
    return path


def test_cells_are_typed_by_the_schema_and_an_empty_one_is_null(tmp_path: Path) -> None:
    (row,) = rows(csv_file(tmp_path, '10,20,"a ""b"", ß",7,1.5,12.30,true,2013-01-31\n'))

    assert row.value.decode() == (
        '{"at":10,"seen":20,"k":"a \\"b\\", ß","i":7,"x":1.5,"d":12.30,"b":true,"day":"2013-01-31"}'
    )
    assert (row.line, row.log_micros, row.key) == (2, 20_000_000, '["a \\"b\\", ß",7]'.encode())


def test_empty_cells_are_null(tmp_path: Path) -> None:
    (row,) = rows(csv_file(tmp_path, "10,20,,,,,,\n"))

    assert json.loads(row.value) == {"at": 10, "seen": 20} | dict.fromkeys(["k", "i", "x", "d", "b", "day"])
    assert row.key == b"[null,null]"


def test_invalid_cell_is_sent_unchanged_and_counted(tmp_path: Path) -> None:
    (row,) = rows(csv_file(tmp_path, "10,20,a,7.5,many,1,maybe,soon\n"))

    assert json.loads(row.value) | {} == {
        "at": 10, "seen": 20, "k": "a", "i": 7.5, "x": "many", "d": 1, "b": "maybe", "day": "soon"
    }  # fmt: skip
    assert row.malformed == Malformed(reason=Reason.TYPE, cells=4, example="column `i`: expected int, got 7.5")


def test_column_missing_from_the_schema_is_excluded_and_named(tmp_path: Path) -> None:
    content = FileContent()
    (row,) = rows(csv_file(tmp_path, "10,20,secret\n", header="at,seen,other\n"), content)

    assert (json.loads(row.value), content.ignored_columns) == ({"at": 10, "seen": 20}, ["other"])


def test_json_lines_are_sent_unchanged(tmp_path: Path) -> None:
    line = b'{"at": 10, "seen": 20,  "k": "a", "x": 1.50, "new": {"a": 1}}'
    (row,) = rows(json_file(tmp_path, b"\n" + line + b"\r\n"))

    assert (row.line, row.value, row.log_micros, row.key) == (2, line, 20_000_000, b'["a",null]')


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".txt"])
def test_gzip_is_known_by_its_bytes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress((HEADER + "10,20,a,1,1,1,true,\n").encode()))

    assert [row.line for row in rows(path)] == [2]


BAD_CSV = {
    "no header": ("", "", r"line 1: expected a header with the column `at`"),
    "no log time": ("at,k\n", "1,a\n", r"expected a header with the column `seen`"),
    "column twice": ("at,seen,k,k\n", "1,2,a,b\n", r"`k` twice"),
    "too few cells": (HEADER, "1,2,a\n", r"line 2: expected 8 cells, got 3"),
    "no time": (
        HEADER,
        "1,2,a,1,1,1,t,\n1,soon,a,1,1,1,t,\n",
        r"line 3: expected a time in seconds in column `seen`, got \"soon\"",
    ),
    "empty log time": (HEADER, "1,,a,1,1,1,t,\n", r"line 2: expected a time in seconds in column `seen`, got none"),
    "event time in another unit": (
        HEADER,
        "1,2,a,1,1,1,t,\n2013-01-01T00:00:00Z,2,a,1,1,1,t,\n",
        r"line 3: expected a time in seconds in column `at`, got \"2013-01-01T00:00:00Z\"",
    ),
    "event time with a fraction": (HEADER, "1.5,2,a,1,1,1,t,\n", r"line 2: expected a time in seconds in column `at`"),
    "millis for seconds": (HEADER, "1356998400000,2,a,1,1,1,t,\n", r"line 2: .* column `at`, got 1356998400000"),
    "no event time anywhere": (HEADER, ",2,a,1,1,1,t,\n,3,a,1,1,1,t,\n", r"column `at` of some record, got none in 2"),
    "open quote": (HEADER, '1,2,"a,1,1,1,t,\n', r"expected CSV"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_invalid_csv_is_rejected_with_its_line(tmp_path: Path, case: str) -> None:
    header, body, expected = BAD_CSV[case]

    with pytest.raises(DefinitionError, match=expected):
        rows(csv_file(tmp_path, body, header))


BAD_JSON = {
    "broken": (b'{"seen":1}\n{"seen":', r"line 2: expected one JSON object"),
    "array": (b"[1]\n", r"line 1: expected one JSON object, got a number"),
    "too deep": (b'{"seen":1,"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}\n", r"line 1: expected JSON that is not"),
    "no log time": (b'{"at":1}\n', r"line 1: expected a time in seconds in column `seen`, got none"),
    "text for a number": (b'{"at":1,"seen":1}\n{"at":"1","seen":1}\n', r'line 2: .* in column `at`, got "1"'),
    "true for a number": (b'{"at":true,"seen":1}\n', r"line 1: .* in column `at`, got true"),
    "another name": (b'{"time":1,"seen":1}\n', r"line 1: expected a time in seconds in column `at` of some record"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_JSON)
def test_invalid_json_is_rejected_with_its_line(tmp_path: Path, case: str) -> None:
    body, expected = BAD_JSON[case]

    with pytest.raises(DefinitionError, match=expected):
        rows(json_file(tmp_path, body))


def test_bytes_that_are_not_utf8_are_rejected_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(HEADER.encode() + b"1,2,\xff,1,1,1,t,\n")

    with pytest.raises(DefinitionError, match=r"line 2: expected UTF-8"):
        rows(path)


def test_text_of_a_cell_is_sent_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    text = 'one\r\ntwo\nthree\rfour "five" \u2028\x00\ufeff '
    path.write_bytes(('\ufeffat,seen,k\r\n1,2,"' + text.replace('"', '""') + '"\r\n3,4,b\r\n').encode())

    first_row, second = rows(path)

    assert (json.loads(first_row.value)["k"], first_row.line) == (text, 2)
    assert (json.loads(second.value)["k"], second.line) == ("b", 5)


def test_a_record_over_several_lines_is_named_by_its_first(tmp_path: Path) -> None:
    path = csv_file(tmp_path, '1,2,"a\n\nb",1,1,1,t,\n\n1,2,"a\nb",x,1,1,t,\n')

    assert [(row.line, row.malformed is None) for row in rows(path)] == [(2, True), (6, False)]


STRICT = replace(
    PIPELINE,
    source=replace(TOPIC, schema="at timestamp, seen timestamp, k string NOT NULL, i int", max_value_bytes=100),
    key=("k",),
)
MALFORMED_JSON = {
    b'{"at":1,"seen":1,"k":"a","i":1}': None,
    b'{"at":1,"seen":1,"k":"a","i":1.0}': (Reason.TYPE, "column `i`: expected int, got 1.0"),
    b'{"at":1,"seen":1,"k":5,"i":{}}': (Reason.TYPE, "column `k`: expected string, got 5"),
    b'{"at":1,"seen":1,"i":1}': (Reason.MISSING, "column `k`: expected a value (NOT NULL), got none"),
    b'{"seen":1,"k":"a"}': (Reason.EVENT_TIME, "column `at`: expected a value (the event time), got none"),
    b'{"at":1,"seen":1,"k":"a","x":NaN}': (Reason.JSON, "NaN, which is not valid JSON"),
    b'{"at":1,"seen":1,"k":"' + b"a" * 90 + b'"}': (Reason.TOO_LARGE, "114 bytes, more than `max_value_bytes` 100"),
    b'{"at":1,"seen":1,"k":"\\ud83d"}': (Reason.TYPE, 'column `k`: expected string, got "\\ud83d"'),
    b'{"at":1,"seen":1,"k":"a","k":1}': (Reason.TYPE, "column `k`: expected string, got 1"),
}


@pytest.mark.parametrize("line", MALFORMED_JSON, ids=lambda line: line[17:50].decode())
def test_json_is_equally_malformed_before_and_after_sending(tmp_path: Path, line: bytes) -> None:
    path = json_file(tmp_path, b'\xef\xbb\xbf{"at":1,"seen":1,"k":"a"}\n' + line + b"\n")

    _, row = rows(path, of=STRICT)

    assert (None if row.malformed is None else (row.malformed.reason, row.malformed.example)) == MALFORMED_JSON[line]
    assert parse_record(row.value, STRICT.source).reason == (None if row.malformed is None else row.malformed.reason)


def test_a_byte_order_mark_is_not_sent(tmp_path: Path) -> None:
    (row,) = rows(json_file(tmp_path, b'\xef\xbb\xbf{"at":1,"seen":1}\n'))

    assert row.value == b'{"at":1,"seen":1}'


def test_content_is_the_same_for_any_line_ending_and_compression(tmp_path: Path) -> None:
    body = "10,20,a,1,1,1,true,\n30,40,b,1,1,1,true,\n"
    contents = [FileContent(), FileContent(), FileContent()]
    rows(csv_file(tmp_path, body), contents[0])
    rows(csv_file(tmp_path, body.replace("\n", "\r\n").replace("a", '"a"'), HEADER), contents[1])
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(("\ufeff" + HEADER + "\n" + body).encode()))
    rows(tmp_path / "b.csv.gz", contents[2])

    assert contents[0].records == 2
    assert contents[0].hashes == contents[1].hashes == contents[2].hashes


def test_message_over_the_limit_is_rejected_with_its_line(tmp_path: Path) -> None:
    fits = b'{"seen":1,"k":"' + b"x" * (MAX_MESSAGE - 17) + b'"}'
    path = json_file(tmp_path, fits + b"\n" + fits[:-2] + b'x"}\n')

    with pytest.raises(DefinitionError, match=r"line 2: expected a message of at most 8,388,608 bytes, got 8,388,609"):
        rows(path)


def test_endless_line_is_rejected_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_files, "MAX_LINE", 1_000)

    with pytest.raises(DefinitionError, match=r"line 2: expected at most 1,000 bytes in a line"):
        rows(json_file(tmp_path, b'{"seen":1}\n' + b"x" * 1_001))


def test_gzip_bomb_of_one_line_is_rejected_at_the_line_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(b"x" * 40_000_000))

    with pytest.raises(DefinitionError, match=r"line 1: expected at most 16,777,216 bytes"):
        rows(path)


def test_gzip_bomb_of_many_lines_is_rejected_by_its_growth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_files, "FREE_EXPANSION", 0)
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(b'{"seen":1}\n' * 20_000, mtime=0))

    with pytest.raises(DefinitionError, match="expands at most 200 times"):
        rows(path)


def test_damaged_gzip_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(b'{"at":1,"seen":1}\n' * 1000)[:-20])

    with pytest.raises(DefinitionError, match="expected a readable file"):
        rows(path)


ISO = replace(PIPELINE, source=replace(TOPIC, time_format="iso"))
ISO_LINE = '{"at":"2013-01-01T00:00:00Z","seen":"2013-01-01T00:00:00Z"}\n'


@pytest.mark.parametrize(
    "time_text",
    [
        "2013-01",
        "2013-02-30",
        "2013-02-30T00:00:00Z",
        "2013-01-01T00:00:00 UTC",
        "01.02.2013 10:00",
        "1356998400",
        "",
        "0999-12-31T00:00:00Z",
    ],
)
def test_time_that_the_parsers_reject_is_rejected_with_line_and_column(tmp_path: Path, time_text: str) -> None:
    other = json.dumps({"at": time_text, "seen": "2013-01-01T00:00:00Z"})
    path = json_file(tmp_path, (ISO_LINE + other + "\n").encode())

    assert parse_record(other.encode(), ISO.source).reason == Reason.EVENT_TIME
    with pytest.raises(DefinitionError, match=r"line 2: expected a time in iso in column `at`, got") as refused:
        rows(path, of=ISO)
    assert str(refused.value).endswith("Hint: nothing was sent.")


@pytest.mark.parametrize(
    "time_text", ["2013-01-01T10:00:00", "2013-01-01 10:00:00.123456789+02:00", "8999-12-31T23:59:59Z"]
)
def test_time_that_the_parsers_accept_is_sent(tmp_path: Path, time_text: str) -> None:
    line = json.dumps({"at": time_text, "seen": "2013-01-01T00:00:00Z"}).encode()

    (row,) = rows(json_file(tmp_path, line), of=ISO)

    assert (parse_record(row.value, ISO.source).reason, row.value) == (None, line)


@pytest.mark.parametrize(
    ("log_times", "lines"),
    [
        (ALL_TIMES, [2, 3, 4]),
        (LogTimeRange(start=20_000_000), [3, 4]),
        (LogTimeRange(end=20_000_000), [2]),
        (LogTimeRange(start=20_000_000, end=30_000_000), [3]),
        (LogTimeRange(start=40_000_000), []),
    ],
)
def test_a_range_of_log_time_is_half_open(tmp_path: Path, log_times: LogTimeRange, lines: list[int]) -> None:
    path = csv_file(tmp_path, "1,10,a,1,1,1,true,\n1,20,a,1,1,1,true,\n1,30,a,1,1,1,true,\n")
    as_json = json_file(tmp_path, b'{"at":1,"seen":10}\n{"at":1,"seen":20}\n{"at":1,"seen":30}\n')

    assert [row.line for row in rows(path, log_times=log_times)] == lines
    assert [row.line + 1 for row in rows(as_json, log_times=log_times)] == lines


def test_outside_a_range_only_times_are_checked(tmp_path: Path) -> None:
    content, log_times = FileContent(), LogTimeRange(end=20_000_000)

    (row,) = rows(csv_file(tmp_path, "1,10,a,1,1,1,true,\n1,20,a,none,1,1,true,\n"), content, log_times=log_times)
    assert (row.malformed, content.records) == (None, 2)
    with pytest.raises(DefinitionError, match="line 3: expected a time in seconds in column `at`"):
        rows(csv_file(tmp_path, "1,10,a,1,1,1,true,\nsoon,20,a,1,1,1,true,\n"), log_times=log_times)


def test_progress_counts_read_records(tmp_path: Path) -> None:
    path, progress = csv_file(tmp_path, "1,10,a,1,1,1,true,\n" * 2_500), list[int]()

    assert list(read_rows(path, PIPELINE, FileContent(), LogTimeRange(start=20_000_000), progress.append)) == []
    assert progress == [1_000, 1_000]


def hashes(path: Path) -> bytes:
    content = FileContent()
    rows(path, content)
    return bytes(content.hashes)


def test_records_are_the_same_for_any_column_order(tmp_path: Path) -> None:
    original_hashes = hashes(csv_file(tmp_path, "10,20,a,7\n11,21,b,8\n", header="at,seen,k,i\n"))
    reordered = hashes(csv_file(tmp_path, "7,a,20,10\n8,b,21,11\n", header="i,k,seen,at\n"))
    swapped_names = hashes(csv_file(tmp_path, "10,20,a,7\n11,21,b,8\n", header="seen,at,k,i\n"))

    assert original_hashes == reordered
    assert original_hashes != swapped_names


def test_json_records_are_the_same_for_any_member_order(tmp_path: Path) -> None:
    original_hashes = hashes(json_file(tmp_path, b'{"at":10,"seen":20,"k":"a","o":{"x":1,"y":[1,2]}}\n'))

    assert (
        hashes(json_file(tmp_path, b'{"o": {"y": [1, 2], "x": 1}, "k": "a", "seen": 20, "at": 10}\n'))
        == original_hashes
    )
    for other in (
        b'{"at":10,"seen":20,"k":"a","o":{"x":1,"y":[2,1]}}',
        b'{"at":10,"seen":20,"k":"a","o":{"x":1.0,"y":[1,2]}}',
        b'{"at":10,"seen":20,"k":"a","o":[["x",1],["y",[1,2]]]}',
        b'{"at":10,"seen":20,"k":"b","k":"a","o":{"x":1,"y":[1,2]}}',
    ):
        assert hashes(json_file(tmp_path, other + b"\n")) != original_hashes
