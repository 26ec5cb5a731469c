"""Records of a file for a topic that is read by `from_json`: only what it makes malformed is counted."""

from pathlib import Path

import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.errors import DefinitionError
from cutover.records.sending.rows import ALL_TIMES, FileContent, FileRecord, read_rows

TOPIC = Topic(name="t", schema="at timestamp, k string, x double, d decimal(9,2)", event_time="at", parse="from_json")
PIPELINE = Pipeline(name="p", source=TOPIC, key=("k",), window=Fixed(hours=1), measures={"n": Count()})


def rows(path: Path, text: str) -> list[FileRecord]:
    path.write_text(text, encoding="utf-8")
    return list(read_rows(path, PIPELINE, FileContent(), ALL_TIMES, lambda _: None))


def test_only_values_that_no_table_holds_are_malformed(tmp_path: Path) -> None:
    records = rows(
        tmp_path / "a.jsonl",
        '{"at": "2026-03-02 10:00:00+00", "d": "12.34"}\n{"at": 1772409600, "d": "n/a", "k": 7}\n'
        '{"at": "2026-03-02", "x": NaN}\n{"at": true}\n',
    )

    assert [record.malformed and str(record.malformed.reason) for record in records] == [
        None,
        None,
        "type",
        "event_time",
    ]


def test_cells_are_read_alike(tmp_path: Path) -> None:
    records = rows(tmp_path / "a.csv", 'at,k,x,d\n2026-03-02 10:00 UTC,a,1.5,"1,234.5"\n2026-03-02,a,,\n')

    assert [record.malformed and str(record.malformed.reason) for record in records] == ["event_time", None]


def test_time_that_no_table_holds_rejects_the_file(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"line 1: expected a time in iso in column `at`, got \"9999-12-31\""):
        rows(tmp_path / "a.jsonl", '{"at": "9999-12-31"}\n')
