"""Records that parsers disagree on, each with the reason why it is malformed, if it is."""

from typing import NamedTuple

from cutover.definition import Avg, Count, Fixed, Max, Min, Pipeline, Sum, Topic

MAX_BYTES = 200_000
AT = '"at":"2024-01-01T00:10:00Z"'

PIPELINE = Pipeline(
    name="nasty",
    source=Topic(
        name="nasty",
        schema="""
            text string, must string NOT NULL, yes boolean, small int, whole bigint, part double, exact decimal(10,2),
            day date, at timestamp NOT NULL, other timestamp
        """,
        event_time="at",
        max_value_bytes=MAX_BYTES,
    ),
    key=("must", "text"),
    derive={"rest": "whole % 2", "share": "10 / small"},
    where="part IS NULL OR part < 100",
    window=Fixed(hours=1),
    measures={
        "n": Count(),
        "total": Sum("whole"),
        "money": Sum("exact"),
        "most": Max("part"),
        "first": Min("text"),
        "mean": Avg("small"),
    },
)


class Nasty(NamedTuple):
    """One record."""

    name: str
    value: bytes | None
    reason: str | None


def with_field(text: str) -> bytes:
    """Return a record that is fine but for a further member, such as `"part":1e400`."""
    return ("{" + AT + ',"must":"x",' + text + "}").encode("utf-8", "surrogatepass")


def make_nested(levels: int) -> bytes:
    """Return a record that nests so deep, itself included."""
    return with_field('"deep":' + "[" * (levels - 1) + "]" * (levels - 1))


FINE = with_field('"whole":1')

BYTES = (
    Nasty("null value", None, "null_value"),
    Nasty("empty value", b"", "empty"),
    Nasty("largest value", FINE + b" " * (MAX_BYTES - len(FINE)), None),
    Nasty("one byte too large", FINE + b" " * (MAX_BYTES + 1 - len(FINE)), "too_large"),
    Nasty("invalid utf-8", with_field('"text":"a"').replace(b'"a"', b'"\xff"'), "utf8"),
    Nasty("overlong utf-8", with_field('"text":"a"').replace(b'"a"', b'"\xc0\x80"'), "utf8"),
    Nasty("surrogate in utf-8", with_field('"text":"\ud800"'), "utf8"),
    Nasty("utf-16", FINE.decode().encode("utf-16"), "utf8"),
    Nasty("byte order mark", b"\xef\xbb\xbf" + FINE, "json"),
)

JSON = (
    Nasty("only blanks", b"  \n", "json"),
    Nasty("blanks around", b" \t\r\n" + FINE + b"\n ", None),
    Nasty("no-break space around", "\u00a0".encode() + FINE, "json"),
    Nasty("half an object", FINE[:-1], "json"),
    Nasty("text after it", FINE + b" x", "json"),
    Nasty("a second object after it", FINE + FINE, "json"),
    Nasty("a comma and a second object", FINE + b"," + FINE, "json"),
    Nasty("a bracket after it", FINE + b"]", "json"),
    Nasty("brackets that would close what is around it", FINE + b"]}", "json"),
    Nasty("brackets that would begin it again", b'{}],"__value":[' + FINE, "json"),
    Nasty("a null before it", b"null," + FINE, "json"),
    Nasty("an array", b"[" + FINE + b"]", "json"),
    Nasty("a number", b"5", "json"),
    Nasty("a string", b'"x"', "json"),
    Nasty("null", b"null", "json"),
    Nasty("no members", b"{}", "missing"),
    Nasty("a comma too much", FINE[:-1] + b",}", "json"),
    Nasty("single quotes", FINE.replace(b'"', b"'"), "json"),
    Nasty("name without quotes", with_field("whole:1"), "json"),
    Nasty("a comment", with_field('"whole":/* one */1'), "json"),
    Nasty("NaN", with_field('"part":NaN'), "json"),
    Nasty("Infinity", with_field('"part":-Infinity'), "json"),
    Nasty("NaN in an unknown field", with_field('"else":NaN'), "json"),
    Nasty("leading zero", with_field('"whole":01'), "json"),
    Nasty("leading plus", with_field('"whole":+1'), "json"),
    Nasty("leading point", with_field('"part":.5'), "json"),
    Nasty("trailing point", with_field('"part":5.'), "json"),
    Nasty("hexadecimal", with_field('"whole":0x1'), "json"),
    Nasty("True", with_field('"yes":True'), "json"),
    Nasty("raw line break in a string", with_field('"text":"a\nb"'), "json"),
    Nasty("raw tab in a string", with_field('"text":"a\tb"'), "json"),
    Nasty("unknown escape", with_field('"text":"\\x"'), "json"),
    Nasty("half an escape", with_field('"text":"\\u00"'), "json"),
    Nasty("deepest allowed", make_nested(1_000), None),
    Nasty("one level too deep", make_nested(1_001), "json"),
    Nasty("2,000 levels", make_nested(2_000), "json"),
    Nasty("100,000 levels, never closed", b"[" * 100_000, "json"),
    Nasty("20,000 objects, never closed", b'{"a":' * 20_000, "json"),
    Nasty("brackets in a string do not nest", with_field('"text":"' + "[" * 2_000 + '"'), None),
    Nasty("longest number", with_field('"else":' + "9" * 1_000), None),
    Nasty("one digit too long", with_field('"else":' + "9" * 1_001), "json"),
    Nasty("long fraction", with_field('"else":0.' + "9" * 1_001), "json"),
    Nasty("longest name", with_field('"' + "k" * 50_000 + '":1'), None),
    Nasty("name too long", with_field('"' + "k" * 50_001 + '":1'), "json"),
)

TYPES = (
    Nasty(
        "all of them",
        with_field('"text":"t","yes":true,"small":1,"whole":2,"part":3.5,"exact":4.25,"day":"2024-02-29"'),
        None,
    ),
    Nasty(
        "all null",
        with_field('"text":null,"yes":null,"small":null,"whole":null,"part":null,"exact":null,"day":null,"other":null'),
        None,
    ),
    Nasty("number in a string", with_field('"text":12'), "type"),
    Nasty("object in a string", with_field('"text":{"a":1}'), "type"),
    Nasty("array in a string", with_field('"text":["a"]'), "type"),
    Nasty("boolean in a string", with_field('"text":true'), "type"),
    Nasty("empty string", with_field('"text":""'), None),
    Nasty("escaped string", with_field('"text":"\\u00e9\\n\\"\\\\\\/"'), None),
    Nasty("zero character", with_field('"text":"a\\u0000b"'), None),
    Nasty("half a surrogate pair", with_field('"text":"\\ud83d"'), "type"),
    Nasty("second half of a surrogate pair", with_field('"text":"a\\ude00b"'), "type"),
    Nasty("surrogates the wrong way round", with_field('"text":"\\ude00\\ud83d"'), "type"),
    Nasty("half a surrogate pair elsewhere", with_field('"else":"\\ud83d"'), None),
    Nasty("half a surrogate pair in a name", with_field('"\\ud83d":1'), None),
    Nasty("broken escape in an unknown field", with_field('"else":"\\u00"'), "json"),
    Nasty("a surrogate pair", with_field('"text":"\\ud83d\\ude00"'), None),
    Nasty("escaped name", with_field('"te\\u0078t":12'), "type"),
    Nasty("name in capitals is another name", with_field('"TEXT":12'), None),
    Nasty("name twice, the last counts", with_field('"whole":1,"whole":2'), None),
    Nasty("name twice, the first of a wrong type", with_field('"whole":"x","whole":2'), "type"),
    Nasty("name twice, the last is null", with_field('"whole":1,"whole":null'), None),
    Nasty("name twice, the first is null", with_field('"whole":null,"whole":2'), None),
    Nasty("name twice, the last of a wrong type", with_field('"whole":1,"whole":"x"'), "type"),
    Nasty("name twice, once escaped", with_field('"whole":1,"wh\\u006fle":2'), None),
    Nasty("name three times", with_field('"whole":1,"whole":null,"whole":3'), None),
    Nasty("boolean twice, the first no boolean", with_field('"yes":1,"yes":true'), "type"),
    Nasty("int twice, the first out of range", with_field('"small":2147483648,"small":1'), "type"),
    Nasty("double twice, the first a string", with_field('"part":"1","part":1'), "type"),
    Nasty("double twice, the first out of range", with_field('"part":1e400,"part":1'), None),
    Nasty("string twice, the first a number", with_field('"text":1,"text":"a"'), None),
    Nasty("string twice, the last a number", with_field('"text":"a","text":1'), "type"),
    Nasty("string twice, the last null", with_field('"text":"a","text":null'), None),
    Nasty("decimal twice, the first a string", with_field('"exact":"x","exact":1.5'), None),
    Nasty("date twice, the first none", with_field('"day":"soon","day":"2024-01-01"'), None),
    Nasty("ISO timestamp twice, the first a number", with_field('"other":1,"other":"2024-01-01T12:00:00Z"'), None),
    Nasty("NOT NULL twice, the last null", with_field('"must":null'), "missing"),
    Nasty("NOT NULL twice, the first null", with_field('"must":null,"must":"y"'), None),
    Nasty("event time twice, the last counts", with_field('"at":"2024-01-02T00:10:00Z"'), None),
    Nasty("event time twice, the last no time", with_field('"at":"soon"'), "event_time"),
    Nasty("string in a boolean", with_field('"yes":"true"'), "type"),
    Nasty("number in a boolean", with_field('"yes":1'), "type"),
    Nasty("string in an int", with_field('"small":"1"'), "type"),
    Nasty("largest int", with_field('"small":2147483647'), None),
    Nasty("int out of range", with_field('"small":2147483648'), "type"),
    Nasty("boolean in an int", with_field('"small":true'), "type"),
    Nasty("fraction in a bigint", with_field('"whole":1.0'), "type"),
    Nasty("exponent in a bigint", with_field('"whole":1e3'), "type"),
    Nasty("string in a bigint", with_field('"whole":"12"'), "type"),
    Nasty("smallest bigint", with_field('"whole":-9223372036854775808'), None),
    Nasty("bigint out of range", with_field('"whole":9223372036854775808'), "type"),
    Nasty("negative zero in a bigint", with_field('"whole":-0'), None),
    Nasty("integer in a double", with_field('"part":5'), None),
    Nasty("negative zero in a double", with_field('"part":-0.0'), None),
    Nasty("string in a double", with_field('"part":"1.5"'), "type"),
    Nasty("NaN as a string", with_field('"part":"NaN"'), "type"),
    Nasty("double out of range", with_field('"part":1e400'), "type"),
    Nasty("negative double out of range", with_field('"part":-1e400'), "type"),
    Nasty("largest double", with_field('"part":-1.7976931348623157e308'), None),
    Nasty("smallest double", with_field('"part":5e-324'), None),
    Nasty("double below the smallest", with_field('"part":1e-400'), None),
    Nasty("huge integer in a double", with_field('"part":-1' + "0" * 30), None),
    Nasty("decimal", with_field('"exact":12345678.99'), None),
    Nasty("decimal with zeros at the end", with_field('"exact":1.50000'), None),
    Nasty("decimal with too many places", with_field('"exact":1.005'), "type"),
    Nasty("decimal too large", with_field('"exact":123456789'), "type"),
    Nasty("decimal with an exponent", with_field('"exact":1e2'), "type"),
    Nasty("decimal as a string", with_field('"exact":"1.5"'), "type"),
    Nasty("decimal of 39 digits", with_field('"exact":0.' + "0" * 39), "type"),
    Nasty("date", with_field('"day":"1000-01-01"'), None),
    Nasty("date before the first", with_field('"day":"0999-12-31"'), "type"),
    Nasty("date after the last", with_field('"day":"9000-01-01"'), "type"),
    Nasty("day that is none", with_field('"day":"2023-02-29"'), "type"),
    Nasty("date with a time", with_field('"day":"2024-01-01T00:00:00"'), "type"),
    Nasty("date of another calendar", with_field('"day":"+29000-01-01"'), "type"),
    Nasty("date with a line break", with_field('"day":"2024-01-01\\n"'), "type"),
    Nasty("date as a number", with_field('"day":19000'), "type"),
    Nasty("day and month only", with_field('"day":"2024-1-1"'), "type"),
    Nasty("blank between date and time", with_field('"other":"2024-01-01 12:00:00"'), None),
    Nasty("nanoseconds are cut off", with_field('"other":"2024-01-01T12:00:00.123456789Z"'), None),
    Nasty("one digit after the second", with_field('"other":"2024-01-01T12:00:00.1Z"'), None),
    Nasty("with an offset", with_field('"other":"2024-01-01T12:00:00+14:59"'), None),
    Nasty("offset before the first day", with_field('"other":"1000-01-01T00:00:00+00:01"'), "type"),
    Nasty("with a zone's name", with_field('"other":"2024-01-01T12:00:00 Europe/Berlin"'), "type"),
    Nasty("offset without colon", with_field('"other":"2024-01-01T12:00:00+0100"'), "type"),
    Nasty("time only", with_field('"other":"12:00:00"'), "type"),
    Nasty("date only is its midnight", with_field('"other":"2024-01-01"'), None),
    Nasty("date only with a zone", with_field('"other":"2024-01-01Z"'), "type"),
    Nasty("date only, one that is none", with_field('"other":"2024-02-30"'), "type"),
    Nasty("date only, after the last", with_field('"other":"9000-01-01"'), "type"),
    Nasty("date and half a time", with_field('"other":"2024-01-01T12"'), "type"),
    Nasty("date only as event time", with_field('"at":"2024-01-01"'), None),
    Nasty("minute 60", with_field('"other":"2024-01-01T12:60:00Z"'), "type"),
    Nasty("hour 24", with_field('"other":"2024-01-01T24:00:00Z"'), "type"),
    Nasty("leap second", with_field('"other":"2016-12-31T23:59:60Z"'), "type"),
    Nasty("year of six digits", with_field('"other":"+294247-01-10T04:00:54Z"'), "type"),
    Nasty("timestamp as a number", with_field('"other":1704067200'), "type"),
    Nasty("digits of another script", with_field('"other":"\uff12024-01-01T12:00:00Z"'), "type"),
)

WHOLE = (
    Nasty("NOT NULL field absent", ("{" + AT + "}").encode(), "missing"),
    Nasty("NOT NULL field null", ("{" + AT + ',"must":null}').encode(), "missing"),
    Nasty("event time absent", b'{"must":"x"}', "missing"),
    Nasty("event time null", b'{"must":"x","at":null}', "missing"),
    Nasty("event time no time", b'{"must":"x","at":"yesterday"}', "event_time"),
    Nasty("event time out of range", b'{"must":"x","at":"0999-12-31T23:59:59Z"}', "event_time"),
    Nasty("event time a number", b'{"must":"x","at":1704067200}', "type"),
    Nasty("event time at the last microsecond", b'{"must":"x","at":"8999-12-31T23:59:59.999999Z"}', None),
    Nasty("event time just before 1970", b'{"must":"x","at":"1969-12-31T23:59:59.999999Z"}', None),
    Nasty("wrong type before missing", b'{"at":"2024-01-01T00:10:00Z","text":1}', "type"),
    Nasty("expression fails", with_field('"small":0'), "expression"),
    Nasty("expression fails on a filtered record", with_field('"small":0,"part":500'), "expression"),
    Nasty("filtered", with_field('"part":500'), None),
    Nasty("colon in a text", with_field('"text":"a:b"'), None),
    Nasty("unknown field behind a text with a colon", with_field('"text":"a:b","else":1'), None),
    Nasty("unknown field and a null", with_field('"whole":null,"else":"c:d"'), None),
    Nasty(
        "unknown field next to a time whose colon is escaped",
        b'{"at":"2024-01-01T00\\u003a10:00Z","must":"x","else":1}',
        None,
    ),
    Nasty("unknown fields", with_field('"a":1,"b":{"text":5},"a":2'), None),
)

RECORDS = BYTES + JSON + TYPES + WHOLE
