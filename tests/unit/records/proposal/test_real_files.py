"""Kinds of files as people have them: `init` writes a definition that loads, and accounts for each record."""

import json
from pathlib import Path

import pytest

from cutover.cli.init import Draft, init
from cutover.cli.lint import warnings
from cutover.definition import Pipeline
from cutover.definition.loading import catalogue
from cutover.definition.model.topic import list_column_types
from cutover.errors import DefinitionError
from cutover.records.sending.rows import ALL_TIMES, FileContent, FileRecord, read_rows
from cutover.settings import Settings
from tests.support.log.real_files import KINDS, Kind


def draft(kind: Kind, folder: Path) -> tuple[Draft, Pipeline, list[FileRecord]]:
    """Run `init`, load what it wrote, and read the file as `produce` does."""
    source = folder / kind.name
    source.write_bytes(kind.text.encode() if isinstance(kind.text, str) else kind.text)
    settings = Settings(home=folder / "home", pipelines=folder / "pipelines")
    written = init(settings, "mine", str(source), time_format=kind.stated_format)
    (pipeline,) = catalogue.load_file(written.file)
    return written, pipeline, list(read_rows(source, pipeline, FileContent(), ALL_TIMES, lambda _: None))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_draft_of_a_real_file_is_valid_and_accounts_for_each_record(kind: Kind, tmp_path: Path) -> None:
    written, pipeline, rows = draft(kind, tmp_path)
    source = pipeline.source
    types = list_column_types(source)

    assert (source.event_time, source.time_format, source.log_time) == (
        kind.event_time,
        kind.time_format,
        kind.log_time,
    )
    assert (pipeline.key, tuple(pipeline.measures)) == ((kind.key,), kind.measures)
    assert {name: types.get(name) for name in kind.types} == kind.types
    assert [text.split(":")[0] for text in warnings(pipeline)] == ([] if kind.log_time else ["source.log_time"])
    assert written.parsed is not None
    assert (len(rows), written.parsed.records) == (kind.records, kind.records)
    malformed = [row.line for row in rows if row.malformed is not None]
    assert (len(malformed), written.parsed.malformed) == (kind.malformed, kind.malformed)
    assert [example.split(",")[0] for example in written.parsed.examples] == [f"line {line}" for line in malformed]
    assert json.loads(rows[0].value).items() >= kind.first.items()
    printed = "\n".join(written.notes)
    assert [note for note in kind.notes if note not in printed] == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "shop,created\na,05/01/2024\nb,05/02/2024\n", "`MM/dd/yyyy` or `dd/MM/yyyy`.*\n.*--time-format"),
        ("a.csv", "shop,created\na,13/01/2024\nb,01/13/2024\n", "expected a column with a time"),
        ("a.csv", "shop,amount\na,1\n", "expected a column with a time"),
        ("a.csv", "a,2024-05-01,1\nb,2024-05-02,2\n", "expected a header with names of columns"),
        ("a.csv", "shop,day\na,05/13/24\n", "a year of two digits"),
        ("a.csv", "shop,day\na,1 August 2024\n", "a month in full"),
        (
            "a.csv",
            "shop,at\na,2024-05-01\nb,soon\n",
            'times except for line 3, "soon".*\n.*correct or remove these lines',
        ),
        ("a.json", '{"shop": {"0": "a"}, "at": {"0": "2024-05-01"}}', "these are columns.*orient='records'"),
        ("a.json", '{"meta": {}, "data": [["a", "2024-05-01"]]}', r"rows that are arrays.*jq -c '.data\[\]"),
        ("a.csv", "# a remark\nshop,at\na,2024-05-01\n", r"line 2: expected 1 cell, got 2"),
        (
            "a.csv",
            "shop;amount;at\na;1;2024-05-01;x\n",
            r"line 2: expected 3 cells \(.* semicolons\), got 4",
        ),
        ("a.json", '{"type": "Topology", "objects": {}}', "expected a column with a time"),
    ],
)
def test_file_without_a_draft_is_rejected_with_the_reason(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")

    with pytest.raises(DefinitionError, match=message):
        init(Settings(home=tmp_path / "home", pipelines=tmp_path / "pipelines"), "mine", str(tmp_path / name))
    assert not (tmp_path / "pipelines").exists()
