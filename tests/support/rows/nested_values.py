"""Records whose columns are at nested places of the JSON: drawn ones, with parents of wrong types and broken texts."""

import random
from collections.abc import Mapping
from typing import Any

from cutover.definition import JsonField
from tests.support.rows.job_values import NUMBERS, TEXTS, WORDS, draw_time

SCHEMA = (
    "id bigint, flag boolean, amount decimal(10,2), day date, x double, y double, n int, c double, m bigint, "
    "note string, raw string, deep string, `at` timestamp, ts timestamp, since timestamp, price decimal(9,3), top int"
)
FIELDS: Mapping[str, JsonField] = {
    "id": JsonField(path="payload.id"),
    "flag": JsonField(path="payload.after.flag"),
    "amount": JsonField(path="payload.after.amount"),
    "day": JsonField(path="payload.after.day"),
    "x": JsonField(path="items[0].x"),
    "y": JsonField(path="items[1].x"),
    "n": JsonField(path="items[1].n"),
    "c": JsonField(path="geo.coordinates[1]"),
    "m": JsonField(path="grid[1][0]"),
    "note": JsonField(path="payload.`No.te [1]`"),
    "raw": JsonField(path="`Driver's name`"),
    "deep": JsonField(path="items[0].sub.list[0].text"),
    "at": JsonField(path="payload.at"),
    "ts": JsonField(path="payload.after.ts", time_format="millis"),
    "since": JsonField(path="items[0].since", time_format="dd.MM.yyyy HH:mm"),
    "price": JsonField(path="items[0].price"),
}
MIXED = ("amount", "x", "y", "n", "raw", "at", "since", "ts", "flag")
"""Columns that have the other form in a topic with both forms."""

_SPACES = ("", "", "", "", " ", "\n\t ")
_OTHER_NAMES = ("other", "AT", "Payload", "", "x", "at", "id", "price")
_EDITS = "{}[]\",:'\\ \t0123.eE-+nulltrueNaNInfinity/u\u00e9\U0001f600\x01"
_SHAPE: Any = {
    "payload": {
        "id": "n", "at": "t", "No.te [1]": "s",
        "after": {"flag": "b", "amount": "d", "day": "v", "ts": "m"},
    },
    "items": [{"x": "x", "n": "n", "since": "p", "price": "d", "sub": {"list": [{"text": "s"}]}}],
    "geo": {"coordinates": ["x"]},
    "grid": [["n"]],
    "Driver's name": "s",
    "top": "n",
}  # fmt: skip


def draw_nested_record(draw: random.Random) -> bytes:
    """Draw a record; most of its values fit, some parents do not, and some texts are broken."""
    odd = draw.choice([0.0, 0.0, 0.03, 0.1, 0.3])
    text = _draw_node(draw, _SHAPE, odd) + draw.choice(["", "", "", "", " x", "}"])
    if draw.random() < 0.3:
        for _ in range(draw.randint(1, 3)):
            text = _edit(draw, text)
    return text.encode("utf-8", "surrogatepass")


def _edit(draw: random.Random, text: str) -> str:
    place = draw.randrange(len(text) + 1)
    end = min(len(text), place + draw.choice([0, 0, 1, 1, 2, 5, len(text)]))
    return text[:place] + "".join(draw.choice(_EDITS) for _ in range(draw.choice([0, 1, 1, 2]))) + text[end:]


def _draw_node(draw: random.Random, shape: Any, odd: float) -> str:
    if draw.random() < odd:
        return draw.choice([_draw_any(draw), "null", '"{}"', "[]", "{}", "5", '[{"x":1}]'])
    if isinstance(shape, dict):
        return _draw_object(draw, shape, odd)
    if isinstance(shape, list):
        elements = [_draw_node(draw, shape[0], odd) for _ in range(draw.choice([0, 1, 2, 2, 2, 3]))]
        return f"[{','.join(elements)}]"
    return _draw_leaf(draw, shape)


def _draw_object(draw: random.Random, shape: Mapping[str, Any], odd: float) -> str:
    names = [name for name in shape if draw.random() < 0.85]
    draw.shuffle(names)
    names += [name for name in shape if draw.random() < odd / 2]  # twice
    members = [f'"{name}"{draw.choice(_SPACES)}:{_draw_node(draw, shape[name], odd)}' for name in names]
    if draw.random() < 0.2 + odd:
        other = f'"{draw.choice(_OTHER_NAMES)}":{_draw_any(draw)}'
        members.insert(draw.randrange(len(members) + 1), other)
    return "{" + draw.choice(_SPACES) + ",".join(members) + "}"


def _draw_any(draw: random.Random) -> str:
    return draw.choice(
        [
            draw.choice(WORDS),
            draw.choice(NUMBERS),
            f'"{draw.choice(TEXTS)}"',
            '{"at":1,"x":[{"id":2}]}',
            '[1,"a",{"x":2}]',
        ]
    )


def _draw_leaf(draw: random.Random, kind: str) -> str:
    if draw.random() < 0.1:
        return _draw_any(draw)
    number = str(draw.randrange(10 ** draw.randint(1, 9)))
    cents = f"{draw.randrange(10**6)}.{draw.randrange(100):02}"
    choices = {
        "n": [number, number, f"-{number}", f'"{number}"', "9223372036854775807"],
        "b": ["true", "false", '"true"'],
        "d": [cents, f'"{cents}"', number, f'"{number}"', '"1e2"', "1e2"],
        "x": [cents, cents, cents, number, number, "1e3", "-0.0", draw.choice(['"NaN"', "1.0"])],
        "s": ['"text"', '"a:b"', number, "true", '{"a":[1.10,null]}', '"\\u00e9\\n"', "'it'", '"\\ud83d"'],
        "v": ['"2026-03-02"', f'"{draw_time(draw)}"', '"20000"'],
        "t": [*['"2026-03-02T01:02:03Z"'] * 6, *["1772409600"] * 3, f'"{draw_time(draw)}"', '"2026"', '"12:30"'],
        "m": ["1772409600123", number, '"1772409600123"', "1.5"],
        "p": ['"02.03.2026 01:02"', '"2.3.2026 1:2"', "1772409600"],
    }
    return draw.choice(choices[kind])


_AT = '"at":"2026-03-02"'
NASTY = (
    '{"payload":{%s,"after":"{\\"amount\\":1}"}}',
    '{"payload":[{%s}]}',
    '{"payload":"{%s}"}',
    '{"payload":{%s},"payload":null}',
    '{"payload":null,"payload":{%s}}',
    '{"payload":{%s,"id":1},"payload":{"id":2}}',
    '{"payload":{"id":1},"payload":{%s}}',
    '{"payload":{%s,"id":1},"payload":7}',
    '{"payload":7,"payload":{%s,"id":1}}',
    '{"payload":{%s,"id":"x"},"payload":{%s,"id":2}}',
    '{"payload":{%s,"ID":1,"Id":2}}',
    '{"PAYLOAD":{%s}}',
    '{"payload":{%s},"items":{"0":{"x":1}}}',
    '{"payload":{%s},"items":[{"x":1}]}',
    '{"payload":{%s},"items":[null,{"x":1}]}',
    '{"payload":{%s},"items":[[{"x":1}]]}',
    '{"payload":{%s},"items":[{"x":1},5]}',
    '{"payload":{%s},"items":[{"x":1},{"x":"a","n":2}]}',
    '{"payload":{%s},"items":[{"x":1,"x":2},{"x":3}]}',
    '{"payload":{%s},"items":[{"x":1,"other":{"a":1,"a":2}}]}',
    '{"payload":{%s},"items":[{"other":"\\ud800","x":1}],"top":1}',
    '{"payload":{%s},"items":[{"x":1}],"items":[{"n":1},{"n":2}]}',
    '{"payload":{%s},"items":[{"x":1}],"items":[5]}',
    '{"payload":{%s},"geo":{"coordinates":[1,"NaN"]}}',
    '{"payload":{%s},"geo":{"coordinates":[1,2,"x"]},"top":5}',
    '{"payload":{%s},"geo":{"coordinates":[1,2,{"top":3}]},"top":5}',
    '{"payload":{%s},"grid":[[1],["x",{"top":1}],[2]],"top":5}',
    '{"payload":{%s},"grid":[[1],null]}',
    '{"payload":{%s},"grid":[[1],[9223372036854775808]]}',
    '{"payload":{%s},"grid":[1,[2]]}',
    '{"payload":{%s,"No.te [1]":{"a":{"b":[1,2]}}}}',
    '{"payload":{%s,"No":{"te [1]":"x"}}}',
    '{"payload.at":"2026-03-02"}',
    '{"payload":{%s,"after":{"amount":1,"flag":tru},"id":3},"top":4}',
    '{"payload":{%s,"after":{"amount":"\\x"},"id":3},"top":4}',
    '{"payload":{"after":{"day":"2026-03-02","flag":true,},"id":3},"top":4}',
    '{"payload":{%s},"items":[{"price":"1e12345","x":1}]}',
    '{"payload":{%s},"items":[{"sub":{"list":[{"text":{"a":"\\ud83d"}}]},"n":3}]}',
    '{"payload":{%s},"items":[{"since":5},{"x":1}]}',
    '{"payload":{"at":9223372036854775}}',
    '{"payload":{"at":[1772409600]}}',
    '{"payload":{"at":{"at":1772409600}}}',
    '{"payload":{%s,"at":"x"}}',
    '{"payload":{"at":"x",%s}}',
    '{"payload":{%s,"at":null}}',
    '{"payload":{%s}}}',
    '{"payload":{%s}',
    '{"payload":{%s},"":1," ":2,"top.":3}',
    '{"payload":{%s},"items":[{"sub":[]}]}',
    '{"payload":{%s},"items":[{"sub":{"list":{}}}]}',
)
"""Bodies of records, with the event time in place of `%s`."""


def list_nasty_records() -> list[bytes]:
    """List records with objects and arrays in places where they are hard to read."""
    return [body.replace("%s", _AT).encode() for body in NASTY]
