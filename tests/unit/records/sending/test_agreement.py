"""Drawn files: `produce` accepts what `init` proposes, and agrees with the parser on malformed records."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, time
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from cutover.cli.init import survey_file
from cutover.cli.lint import warnings
from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.definition.loading import catalogue
from cutover.definition.model.topic import list_fields
from cutover.errors import DefinitionError
from cutover.records.proposal import template
from cutover.records.proposal.parsed_file import ParsedFile, RecordTimes, parse_all_records
from cutover.records.reference.parse import parse_record
from cutover.records.sending.rows import ALL_TIMES, FileContent, FileRecord, read_checked_records, read_rows
from tests.support.rows.cells import CELLS

AT = "2026-03-02T00:00:00Z"
TYPES = ("boolean", "int", "bigint", "double", "decimal(5,2)", "decimal(38,0)", "decimal(2,2)", "string", "date")
NAMES = (
    "order", "Order", "ORDER", "from", "timestamp", "events", "Events", "total", "series", "_class", "__x", "a b",
    "größe", "when", "x" * 63, "x" * 64, "1a", "id", "count", "all", "window_start", "value", "largest", "average",
    "key", "", "a`b", "created_at", "ts", "sent_at", "a\nb", '"""', "\\", "{x}",
)  # fmt: skip
TEXTS = st.sampled_from(CELLS) | st.text(st.characters(codec="utf-8"), max_size=5)
NUMBERS = (
    st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats(allow_nan=True)
    | st.sampled_from([0, 1, 2**63, 1_772_409_600, 1_772_409_600_000, 1_772_409_600_000_007])
)
VALUES = (
    st.none()
    | st.booleans()
    | NUMBERS
    | TEXTS
    | st.sampled_from(["\ud83d", [], {}, [1], {"a": 1}, {"a": float("nan")}])
)


def write_csv(folder: str, header: Sequence[str], rows: Sequence[Sequence[str]], end: str) -> Path:
    path, text = Path(folder) / "drawn.csv", io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([header, *rows])
    path.write_bytes(text.getvalue().encode())
    return path


def read(path: Path, pipeline: Pipeline) -> list[FileRecord]:
    return list(read_rows(path, pipeline, FileContent(), ALL_TIMES, lambda _: None))


def found_reasons(rows: Sequence[FileRecord]) -> list[str | None]:
    return [None if row.malformed is None else row.malformed.reason for row in rows]


@given(
    rows=st.lists(st.tuples(*[TEXTS] * len(TYPES)), min_size=1, max_size=6),
    end=st.sampled_from(["\n", "\r\n"]),
    required=st.booleans(),
    max_bytes=st.sampled_from([200, 1_000_000]),
)
def test_produce_calls_malformed_what_the_parser_calls_malformed(
    rows: list[tuple[str, ...]], end: str, required: bool, max_bytes: int
) -> None:
    names = [f"c{n}" for n in range(len(TYPES))]
    columns = [f"{name} {kind}{' NOT NULL' if required else ''}" for name, kind in zip(names, TYPES, strict=True)]
    topic = Topic(name="t", schema=", ".join(["at timestamp", *columns]), event_time="at", max_value_bytes=max_bytes)
    pipeline = Pipeline(name="p", source=topic, key=("c7",), window=Fixed(hours=1), measures={"n": Count()})
    with TemporaryDirectory() as folder:
        path = write_csv(folder, ["at", *names], [[AT, *row] for row in rows], end)
        try:
            sent_rows = read(path, pipeline)
        except DefinitionError as error:
            if "expected numbers with one decimal mark" not in str(error):
                raise
            return

    parsed = [parse_record(row.value, topic) for row in sent_rows]
    assert found_reasons(sent_rows) == [record.reason for record in parsed]
    assert [0 if row.malformed is None else row.malformed.cells for row in sent_rows] == [
        0 if row.malformed is None else sum(_is_alone_malformed(topic, row.value, name) for name in names)
        for row in sent_rows
    ]
    assert [json.loads(row.value)["c7"] for row in sent_rows] == [row[7] or None for row in rows]


def _is_alone_malformed(topic: Topic, value: bytes, name: str) -> bool:
    """Check whether a record with only this field and its time is malformed(type)."""
    kind = next(item.type for item in list_fields(topic) if item.name == name)
    narrow = replace(topic, schema=f"at timestamp, {name} {kind}", max_value_bytes=10**9)
    return parse_record(value, narrow).reason == "type"


@given(
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
    data=st.data(),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_no_cell_is_malformed_under_the_definition_that_init_wrote(
    names: list[str], data: st.DataObject, end: str
) -> None:
    rows = data.draw(st.lists(st.tuples(*[TEXTS] * len(names)), min_size=1, max_size=6))
    with TemporaryDirectory() as folder:
        path = write_csv(folder, ["happened", *names], [[AT, *row] for row in rows], end)
        pipeline = drafted(path)
        sent_rows = read(path, pipeline)
        parsed = parse_all_records(path, pipeline.source, None)

    assert [row.malformed for row in sent_rows] == [None] * len(rows)
    assert (parsed.records, parsed.malformed) == (len(rows), 0)


@given(
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
    data=st.data(),
)
def test_no_field_is_malformed_under_the_definition_that_init_wrote(names: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(names, VALUES)), min_size=1, max_size=6))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.jsonl"
        path.write_text("".join(json.dumps({"happened": AT} | row) + "\n" for row in rows), encoding="utf-8")
        survey = survey_file(path)
        if survey.rows == 0:
            return
        pipeline = drafted(path)
        sent_rows = read(path, pipeline)

    assert [
        row.reason for row in map(parse_record, [r.value for r in sent_rows], [pipeline.source] * len(sent_rows))
    ] == found_reasons(sent_rows)
    assert sum(row.malformed is not None for row in sent_rows) == survey.malformed


@given(rows=st.lists(st.tuples(*[TEXTS] * len(TYPES)), min_size=1, max_size=6), has_time=st.lists(st.booleans()))
def test_file_read_by_columns_has_the_malformed_records_of_one_read_by_records(
    rows: list[tuple[str, ...]], has_time: list[bool]
) -> None:
    columns = [f"c{n} {kind}" for n, kind in enumerate(TYPES)]
    times = [AT if n >= len(has_time) or has_time[n] else "NA" for n in range(len(rows))]
    topic = Topic(name="t", schema=", ".join(["at timestamp NOT NULL", *columns]), event_time="at")
    with TemporaryDirectory() as folder:
        header = ["at", *(f"c{n}" for n in range(len(TYPES)))]
        path = write_csv(folder, header, [[at, *row] for at, row in zip(times, rows, strict=True)], "\n")
        try:
            by_column = parse_all_records(path, topic, None)
        except DefinitionError as error:
            if "expected numbers with one decimal mark" not in str(error):
                raise
            return
        by_record = ParsedFile(times=RecordTimes(is_logged=False))
        for record in read_checked_records(path, topic, FileContent()):
            by_record.add_malformed(record)

    assert (by_column.reasons, by_column.examples) == (by_record.reasons, by_record.examples)


@given(
    day=st.dates(),
    clock=st.none() | st.times(),
    gap=st.sampled_from("T "),
    digits=st.integers(min_value=0, max_value=9),
    zone=st.sampled_from(["", "Z", "+01:00", "-00:30"]),
)
def test_time_of_a_column_is_the_one_of_its_record(
    day: date, clock: time | None, gap: str, digits: int, zone: str
) -> None:
    fraction = f".{'123456789'[:digits]}" if digits else ""
    text = day.isoformat() if clock is None else f"{day}{gap}{clock:%H:%M:%S}{fraction}{zone}"
    topic = Topic(name="t", schema="at timestamp, k string", event_time="at")
    with TemporaryDirectory() as folder:
        path = write_csv(folder, ["at", "k"], [[text, "a"]], "\n")
        by_column = parse_all_records(path, topic, None)
        (record,) = read_checked_records(path, topic, FileContent())

    assert list(by_column.times.events) == [time for time in [record.parsed.values["at"]] if time is not None]


def drafted(path: Path) -> Pipeline:
    """Load the pipeline of the draft that `init` writes and `lint` accepts."""
    draft = path.with_name("mine.py")
    draft.write_text(template.render_definition("mine", "mine", path.name, survey_file(path).guess()), encoding="utf-8")
    (pipeline,) = catalogue.load_file(draft)
    assert warnings(pipeline) is not None
    return pipeline
