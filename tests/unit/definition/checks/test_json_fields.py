"""Places in the JSON: paths that are accepted and rejected, and columns whose places do not go together."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cutover.definition import Count, CsvOptions, Fixed, Join, JsonField, Pipeline, Topic
from cutover.definition.checks.definition import check_definition
from cutover.definition.compile.fingerprint import result_fingerprint
from cutover.definition.model.topic import format_path, list_fields, parse_path
from cutover.errors import DefinitionError
from cutover.lake.recorded_definitions import decode_definition, encode_definition

TOPIC = Topic(
    name="t",
    schema="id bigint NOT NULL, amount decimal(9,2), x double, y double, at timestamp",
    event_time="at",
    parse="from_json",
)
PIPELINE = Pipeline(name="p", source=TOPIC, key=("id",), window=Fixed(hours=1), measures={"n": Count()})
PATHS = {
    "payload.after.amount": ("payload", "after", "amount"),
    "`Created Date`": ("Created Date",),
    "items[0].price": ("items", 0, "price"),
    "a[0][12].`x.y[1]`": ("a", 0, 12, "x.y[1]"),
    "@type.$id.über-raum": ("@type", "$id", "über-raum"),
    "`Driver's name`": ("Driver's name",),
}
BAD_PATHS = ("", ".a", "a.", "a..b", "[0]", "[0].a", "a[x]", "a[-1]", "a[10000]", "a b", "``", "a.`b", "a`b`", '`a"b`',
             "`a\\b`", "`a\nb`", "a" * 1_001, ".".join("a" * 33))  # fmt: skip
BAD: Mapping[str, tuple[dict[str, Any], str]] = {
    "path": ({"id": JsonField(path="a..b")}, "source.fields.id.path: expected a name, `.` and a name, or an index"),
    "unknown column": (
        {"ida": JsonField(path="a")},
        "source.fields: expected a column of id, amount, x, y, at, got `ida`",
    ),
    "form": (
        {"id": JsonField(parse="lenient")},  # type: ignore[arg-type]  # what is tested
        "source.fields.id.parse: expected strict, from_json, avro, protobuf, csv or text, got 'lenient'",
    ),
    "time format": (
        {"at": JsonField(time_format="milis")},
        "source.fields.at.time_format: expected iso, seconds, millis, micros, nanos or a pattern",
    ),
    "time format of a number": (
        {"id": JsonField(time_format="millis")},
        "source.fields.id.time_format: expected none, since only timestamps have one, got one of a bigint",
    ),
    "no place": ({"id": "a.b"}, "source.fields.id: expected JsonField(path="),
    "one place twice": (
        {"x": JsonField(path="a.b"), "y": JsonField(path="a.b")},
        "expected another place for each column, got `a.b` for `y` and `a.b` for `x`",
    ),
    "place of a column without one": ({"x": JsonField(path="y")}, "got `y` for `y` and `y` for `x`"),
    "value and object": (
        {"x": JsonField(path="a"), "y": JsonField(path="a.b")},
        "expected one kind of value at each place, got `a.b` for `y` and `a` for `x`",
    ),
    "object and array": (
        {"x": JsonField(path="a.b"), "y": JsonField(path="a[0].b")},
        "expected one kind of value at each place",
    ),
    "elements of two types": (
        {"x": JsonField(path="a[0]"), "id": JsonField(path="a[1]")},
        "expected one kind of value at each place, got `a[0]` for `x` and `a[1]` for `id`",
    ),
    "names that differ by case": (
        {"x": JsonField(path="a.b"), "y": JsonField(path="A.c")},
        "expected names that differ by more than case, got `A.c` for `y` and `a.b` for `x`",
    ),
    "decimals in an array": (
        {"amount": JsonField(path="a[0]")},
        "a path that ends with a name, got `a[0]` for a decimal",
    ),
    "times in an array": ({"at": JsonField(path="a[0]")}, "a path that ends with a name, got `a[0]` for a timestamp"),
    "blank in a strict array": (
        {"x": JsonField(path="a[0].` b`", parse="strict")},
        "expected names in an array that neither begin with a blank",
    ),
    "question mark in a strict array": (
        {"x": JsonField(path="a[0].`b.c?`", parse="strict")},
        "nor have `?` next to `.` or `[`, got `b.c?`",
    ),
    "text of a broken record": ({"x": JsonField(path="_corrupt_record")}, "another name than `_corrupt_record`"),
}  # fmt: skip


@pytest.mark.parametrize("text", PATHS)
def test_path_is_read_and_written(text: str) -> None:
    assert parse_path(text) == PATHS[text]
    assert parse_path(format_path(PATHS[text])) == PATHS[text]


@pytest.mark.parametrize("text", BAD_PATHS)
def test_text_that_is_no_path_is_rejected(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"such as `payload\.after\.amount`"):
        parse_path(text)


@pytest.mark.parametrize("name", BAD)
def test_definition_is_rejected(name: str) -> None:
    fields, expected = BAD[name]

    with pytest.raises(DefinitionError) as error:
        check_definition(replace(PIPELINE, source=replace(TOPIC, fields=fields)))

    assert expected in str(error.value)


def test_right_topic_of_a_join_is_checked_too() -> None:
    right = replace(TOPIC, name="r", fields={"id": JsonField(path="a[")})

    with pytest.raises(DefinitionError, match=r"join\.right\.fields\.id\.path: expected"):
        check_definition(replace(PIPELINE, join=Join(right=right, on={"id": "id"})))


def test_columns_of_one_array_and_of_numbers_are_accepted() -> None:
    fields = {
        "x": JsonField(path="a[0].b"),
        "y": JsonField(path="a[1].b"),
        "id": JsonField(path="a[1].c[0]"),
        "amount": JsonField(path="a[0].d", parse="strict"),
        "at": JsonField(path="times[0]", time_format="millis"),
    }

    check_definition(replace(PIPELINE, source=replace(TOPIC, fields=fields)))


def test_column_has_the_form_of_its_topic_unless_it_says_another_one() -> None:
    topic = replace(TOPIC, time_format="millis", fields={"at": JsonField(time_format="iso", parse="strict")})

    by_name = {column.name: column for column in list_fields(topic)}

    assert (by_name["at"].parse, by_name["at"].time_format) == ("strict", "iso")
    assert (by_name["id"].parse, by_name["id"].time_format, by_name["id"].path) == ("from_json", "millis", ("id",))


def test_places_are_a_part_of_the_result_and_words_for_the_default_are_not() -> None:
    fingerprint = result_fingerprint(PIPELINE)
    same = replace(TOPIC, fields={"id": JsonField(), "x": JsonField(path="x", parse="from_json"), "at": JsonField()})
    others = [
        {"id": JsonField(path="a.id")},
        {"id": JsonField(parse="strict")},
        {"at": JsonField(time_format="millis")},
    ]

    assert result_fingerprint(replace(PIPELINE, source=same)) == fingerprint
    fingerprints = {result_fingerprint(replace(PIPELINE, source=replace(TOPIC, fields=fields))) for fields in others}
    assert len({*fingerprints, fingerprint}) == 4
    quoted = replace(TOPIC, fields={"id": JsonField(path="`a`.`id`")})
    plain = replace(TOPIC, fields={"id": JsonField(path="a.id")})
    assert result_fingerprint(replace(PIPELINE, source=quoted)) == result_fingerprint(replace(PIPELINE, source=plain))


def test_recorded_definition_has_its_places() -> None:
    fields = {"id": JsonField(path="a.id"), "at": JsonField(time_format="millis", parse="strict")}
    pipeline = replace(PIPELINE, source=replace(TOPIC, fields=fields))

    assert decode_definition(encode_definition(pipeline)) == pipeline


AVRO = replace(TOPIC, parse="avro")


def test_a_topic_in_avro_is_accepted_recorded_and_another_result() -> None:
    pipeline = replace(PIPELINE, source=replace(AVRO, fields={"x": JsonField(path="payload.x")}))

    check_definition(pipeline)

    assert decode_definition(encode_definition(pipeline)) == pipeline
    assert result_fingerprint(replace(PIPELINE, source=AVRO)) != result_fingerprint(PIPELINE)


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (
            replace(AVRO, fields={"x": JsonField(parse="strict")}),
            "source.fields.x.parse: expected the form of the topic",
        ),
        (
            replace(TOPIC, fields={"x": JsonField(parse="avro")}),
            "source.fields.x.parse: expected the form of the topic",
        ),
        (replace(AVRO, fields={"x": JsonField(path="items[0].x")}), "source.fields.x.path: expected names alone"),
        (replace(AVRO, max_value_bytes=16_777_217), "source.max_value_bytes: expected at most 16,777,216"),
        (replace(AVRO, log_time="at"), "source.log_time: expected none in a topic of Avro"),
        (replace(TOPIC, parse="protobuf"), "ProtobufOptions(message=..., descriptor_set=read_descriptor_set(...))"),
    ],
)
def test_what_avro_does_not_have_is_rejected(topic: Topic, message: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):
        check_definition(replace(PIPELINE, source=topic))


CSV = replace(TOPIC, parse="csv")
TEXTS = Topic(name="t", schema="line string, at timestamp", event_time="at", parse="text")


def test_topics_of_csv_and_of_texts_are_accepted_recorded_and_another_result() -> None:
    plain = replace(PIPELINE, source=CSV)
    other = replace(PIPELINE, source=replace(CSV, csv=CsvOptions(delimiter=";", null_value="NA")))
    texts = replace(PIPELINE, source=TEXTS, key=("line",), measures={"n": Count()})

    for pipeline in (plain, other, texts):
        check_definition(pipeline)
        assert decode_definition(encode_definition(pipeline)) == pipeline
    spelled_out = replace(PIPELINE, source=replace(CSV, csv=CsvOptions()))
    assert result_fingerprint(plain) == result_fingerprint(spelled_out)
    assert len({result_fingerprint(pipeline) for pipeline in (PIPELINE, plain, other, texts)}) == 4


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (replace(CSV, fields={"x": JsonField(path="a.x")}), "source.fields.x.path: expected none in a topic of CSV"),
        (replace(CSV, fields={"x": JsonField(parse="from_json")}), "expected the form of the topic, csv"),
        (replace(CSV, log_time="at"), "source.log_time: expected none in a topic of CSV"),
        (replace(TOPIC, csv=CsvOptions()), 'source.csv: expected none, since only parse="csv" has options'),
        (replace(CSV, csv=CsvOptions(delimiter="||")), "source.csv.delimiter: expected one character"),
        (replace(CSV, csv=CsvOptions(delimiter="\\")), "source.csv.delimiter: expected another character"),
        (replace(CSV, csv=CsvOptions(delimiter='"')), "source.csv.delimiter: expected another character"),
        (replace(CSV, csv=CsvOptions(escape="\n")), "source.csv.escape: expected one character"),
        (replace(CSV, csv=CsvOptions(quote="\0")), "source.csv.quote: expected one character"),
        (replace(CSV, csv=";"), "source.csv: expected CsvOptions"),  # type: ignore[arg-type]  # what is tested
        (replace(TEXTS, schema="a string, b string, at timestamp"), "source.schema: expected one string column"),
    ],
)
def test_what_csv_and_texts_do_not_have_is_rejected(topic: Topic, message: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):
        check_definition(replace(PIPELINE, source=topic))
