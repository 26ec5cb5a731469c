"""Files for a topic whose columns are at nested places: checked by their paths, and CSV cells sent to them."""

import json
from pathlib import Path

import pytest

from cutover.definition import Count, Fixed, JsonField, Pipeline, Topic
from cutover.errors import DefinitionError
from cutover.records.sending.rows import ALL_TIMES, FileContent, FileRecord, read_rows

TOPIC = Topic(
    name="t",
    schema="id bigint NOT NULL, amount decimal(9,2), first int, third int, created date, at timestamp",
    event_time="at",
    log_time="at",
    fields={
        "id": JsonField(path="payload.id"),
        "amount": JsonField(path="payload.after.amount", parse="from_json"),
        "first": JsonField(path="items[0].n"),
        "third": JsonField(path="items[2].n"),
        "created": JsonField(path="`Created Date`"),
        "at": JsonField(path="payload.at", time_format="millis"),
    },
)
PIPELINE = Pipeline(name="p", source=TOPIC, key=("id",), window=Fixed(hours=1), measures={"n": Count()})


def _read(path: Path, text: str) -> list[FileRecord]:
    path.write_text(text, encoding="utf-8")
    return list(read_rows(path, PIPELINE, FileContent(), ALL_TIMES, lambda _: None))


def test_cells_are_sent_to_the_places_of_their_paths(tmp_path: Path) -> None:
    header = "payload.id,payload.after.amount,items[0].n,items[2].n,Created Date,payload.at,other\n"

    (record,) = _read(tmp_path / "a.csv", f"{header}1,2.50,3,,2026-03-02,1772409600000,x\n")

    assert json.loads(record.value) == {
        "payload": {"id": 1, "after": {"amount": 2.5}, "at": 1772409600000},
        "items": [{"n": 3}, None, {"n": None}],
        "Created Date": "2026-03-02",
    }
    assert (record.malformed, record.key, record.log_micros) == (None, b"[1]", 1_772_409_600_000_000)


def test_header_needs_the_path_of_the_event_time(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"a header with the column `payload.at`, got payload.id"):
        _read(tmp_path / "a.csv", "payload.id\n1\n")


def test_lines_are_checked_at_the_places(tmp_path: Path) -> None:
    fine = '{"payload":{"id":1,"at":1772409600000,"after":{"amount":"1,234.5"}}}'
    lines = [
        fine,
        '{"payload":{"id":"x","at":1772409600000}}',
        '{"payload":{"at":1772409600000}}',
        '{"payload":{"id":1,"at":1772409600000},"items":7}',
    ]

    records = _read(tmp_path / "a.jsonl", "\n".join(lines))

    assert [str(r.malformed.reason) if r.malformed else None for r in records] == [None, "type", "missing", "type"]
    assert records[1].malformed is not None
    assert records[1].malformed.example == 'column `id` (payload.id): expected bigint, got "x"'
    assert records[3].malformed is not None
    assert records[3].malformed.example == "column `first` (items[0].n): expected int, got 7"


def test_time_in_another_format_is_rejected_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"a time in millis in column `at` \(payload.at\), got \"2026-03-02\""):
        _read(tmp_path / "a.jsonl", '{"payload":{"id":1,"at":"2026-03-02"}}')
