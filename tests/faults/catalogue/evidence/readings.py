"""Reading changes a value: cells that a careless reader takes for one another, in files that are compared or sent."""

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from cutover.clock import SystemClock
from cutover.definition import Lookup, Pipeline
from cutover.errors import CutoverError
from cutover.lake.dimensions import load as dimension_load
from cutover.lake.serving import views
from cutover.reconcile.external.request import DiffRequest
from cutover.reconcile.external.tables import compare_tables
from cutover.reconcile.result.finding import Verdict
from cutover.records.sending.produce import Progress, Request, produce
from tests.faults.catalogue.evidence.findings import LAKE_ALONE, nothing
from tests.faults.fault import Fault
from tests.faults.running.definition import definition
from tests.faults.running.rig import Rig
from tests.integration.streaming.rig import MINUTE, NOON
from tests.support.oracle.records import OracleRecord, append
from tests.support.suite.until import until

DIFFERENT, EQUAL, REJECTED = "different", "equal", "rejected"
LONG = 10**40 + 7  # of 41 digits
WHOLE = 2.0**53 - 2
NAMES = "names"

Write = tuple[str, str]  # form of a file, and where the cell stands


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two cells that are not the same, and the type that a Parquet file gives them."""

    left_value: Any
    right_value: Any
    type: pa.DataType


def _texts(*pairs: tuple[str, str]) -> tuple[Pair, ...]:
    return tuple(
        Pair(left_value=first_text, right_value=second_text, type=pa.string()) for first_text, second_text in pairs
    )


LIKE_NUMBERS = _texts(
    ("1e2", "100"), ("007", "7"), ("0x10", "16"), ("1_000", "1000"), (" 1", "1"), ("1e400", "1e500"),
    ("NaN", "nan"), ("Infinity", "inf"), ("-0", "0x0"), ("1,000", "1000"), ("\u0661", "1"),
)  # fmt: skip
LINE_BREAKS = _texts(("a\r\nb", "a\nb"), ("a\rb", "a\nb"), ("a\n", "a"), ("\r\n", "\n"), ("1\r\n", "1\n"))
LONG_DECIMALS = tuple(
    Pair(left_value=first_decimal, right_value=second_decimal, type=pa.decimal256(60, scale))
    for first_decimal, second_decimal, scale in (
        (Decimal(LONG), Decimal(LONG + 1), 0),
        (Decimal(-LONG), Decimal(-LONG - 1), 0),
        (Decimal(f"0.{LONG}"), Decimal(f"0.{LONG + 1}"), 45),
        (Decimal(f"{10**14 + 1}.{10**25 + 1}"), Decimal(f"{10**14 + 1}.{10**25 + 2}"), 30),
    )
)
WHOLE_DOUBLES = tuple(
    Pair(left_value=first_double, right_value=second_double, type=pa.float64())
    for first_double, second_double in (
        (WHOLE, WHOLE + 1),
        (1234567890123.0, 1234567890124.0),
        (-4200000000.0, -4200000001.0),
    )
)
PLACES: Sequence[Write] = tuple(product(("csv", "csv.gz", "parquet"), ("value", "key")))


def write_side(file: Path, cell: Any, kind: pa.DataType, place: str) -> None:
    """Write a table with one row, whose key or value is the cell."""
    columns = {"k": cell, "v": 1} if place == "key" else {"k": 1, "v": cell}
    if file.suffix == ".parquet":
        types = {"k": pa.int64(), "v": pa.int64(), place[0]: kind}
        pq.write_table(pa.table({name: pa.array([value], types[name]) for name, value in columns.items()}), file)
        return
    text = format(cell, "f") if isinstance(cell, Decimal) else str(cell)
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "wt", encoding="utf-8", newline="") as file_out:
        # The least quoting leaves a lone CR without quotes, which is no CSV.
        writer = csv.writer(file_out, lineterminator="\n", quoting=csv.QUOTE_ALL if "\r" in text else csv.QUOTE_MINIMAL)
        writer.writerows([[*columns], [text if value is cell else value for value in columns.values()]])


def answer(path: Path, right: Path) -> str:
    """Return what a comparison says of two files, or that it rejects one and names it or the column."""
    try:
        tables = compare_tables(DiffRequest(expected=str(path), actual=str(right), key=("k",)))
    except CutoverError as error:
        is_named = any(name in str(error) for name in (path.name, right.name, "`k`", "`v`"))
        return REJECTED if is_named else f"rejected without a name: {error}"
    verdict = tables.finding.verdict
    return {Verdict.CONSISTENT: EQUAL, Verdict.DIVERGED: DIFFERENT}.get(verdict, str(verdict))


def compare_pairs(rig: Rig, *, pairs: Sequence[Pair]) -> None:
    """Compare two files for each pair, form of file and place of the cell."""
    answers, differing = list[str](), 0
    for number, (pair, (form, place)) in enumerate(product(pairs, PLACES)):
        left_file, right_file = (rig.settings.home / f"{side}-{number}.{form}" for side in ("left", "right"))
        for file, cell in ((left_file, pair.left_value), (right_file, pair.right_value)):
            write_side(file, cell, pair.type, place)
        differing += _content(left_file) != _content(right_file)
        answers.append(
            f"{pair.left_value!r} against {pair.right_value!r}, {place} in {form}: {answer(left_file, right_file)}"
        )
    rig.note("answers", answers)
    rig.note("files that differ", differing)


def _content(file: Path) -> bytes:
    return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()


def bytes_differ(rig: Rig) -> bool:
    """Return whether the two files of every pair hold other bytes."""
    return bool(rig.evidence["files that differ"] == len(rig.evidence["answers"]) > 0)


def no_pair_is_called_equal(rig: Rig) -> Iterator[str]:
    """Each is different, or a file is rejected by its name or the column's."""
    yield from _list_others(rig.evidence["answers"], DIFFERENT, REJECTED)


def _list_others(answers: Iterable[str], *expected: str) -> Iterator[str]:
    return (answer for answer in answers if answer.rpartition(": ")[2] not in expected)


CONTROLS: Mapping[str, tuple[str, str]] = {
    "ends of records": ("k,v\n1,a\n2,b\n", "k,v\r\n1,a\r\n2,b\r\n"),
    "quotes": ("k,v\n1,a\n", '"k","v"\n"1","a"\n'),
    "a byte order mark": ("k,v\n1,a\n", "\ufeffk,v\n1,a\n"),
    "zeros behind the point": ("k,v\n1,1.5\n2,2.25\n", "k,v\n1,1.50\n2,2.250\n"),
    "line breaks in cells": ('k,v\n"a\r\nb",1\n', '"k","v"\n"a\r\nb","1"\n'),
    "order of records and columns": ("k,v\n1,007\n2,1e2\n", "v,k\n1e2,2\n007,1\n"),
}


def compare_controls(rig: Rig) -> None:
    """Compare files that hold the same cells in other bytes."""
    answers, differing = list[str](), 0
    for number, (name, texts) in enumerate(CONTROLS.items()):
        left_file, right_file = (rig.settings.home / f"{side}-{number}.csv" for side in ("left", "right"))
        for file, text in ((left_file, texts[0]), (right_file, texts[1])):
            file.write_bytes(text.encode())
        differing += _content(left_file) != _content(right_file)
        answers.append(f"{name}: {answer(left_file, right_file)}")
    rig.note("answers", answers)
    rig.note("files that differ", differing)


def every_pair_is_called_equal(rig: Rig) -> Iterator[str]:
    """The same cells are equal, however they are written."""
    yield from _list_others(rig.evidence["answers"], EQUAL)


KEYS = tuple(dict.fromkeys(str(cell) for pair in (*LIKE_NUMBERS, *LINE_BREAKS, *LONG_DECIMALS, *WHOLE_DOUBLES)
                           for cell in (pair.left_value, pair.right_value)))  # fmt: skip
"""Cells of all pairs, as keys of records."""

FIRST_ID = 1_000
"""Beyond the ids of the rig's own events."""


def joined_by_text(topic: str) -> Pipeline:
    """Return a definition that leaves out every record whose key is not, byte for byte, the one of its dimension."""
    lookup = Lookup(table=NAMES, on={"k": "k"}, columns={"same": "string"})
    return replace(definition(topic), lookups={NAMES: lookup}, where="same = k")


def send_file(rig: Rig, *, form: str, is_joined: bool = False) -> None:
    """Send a file whose keys are the cells of all pairs, twice each; where it is joined, load them too."""
    if is_joined:
        rig.make = partial(joined_by_text, rig.topic)
        loaded = rig.settings.home / "names.csv"
        _write_csv(loaded, ("k", "same"), [(key, key) for key in KEYS])
        dimension_load.load_dimension(rig.settings, NAMES, loaded, key=["k"])
    rows = [(FIRST_ID + n, key, NOON // 1000 + n * 1000) for n, key in enumerate((*KEYS, *KEYS))]
    file = rig.settings.home / f"sent.{form}"
    if form == "csv":
        _write_csv(file, ("id", "k", "at"), rows)
    else:
        lines = (json.dumps(dict(zip(("id", "k", "at"), row, strict=True))) + "\n" for row in rows)
        file.write_text("".join(lines), encoding="utf-8")
    quiet = Progress(on_read=lambda _: None, on_total=lambda _: None, on_sent=lambda _: None)
    produce(rig.lake, Request(file=file), clock=SystemClock(), progress=quiet)
    _note_sent(rig, {number: key for number, key, _ in rows})


def _write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as file_out:
        csv.writer(file_out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows([header, *rows])


def _note_sent(rig: Rig, keys: Mapping[int, str]) -> None:
    """Append each record's position to the oracle, with the key that the file gives it; keep the keys in the log."""
    values_by_position, ten = _read_log(rig), 10 * MINUTE
    rig.note("keys in the log", [str(value["k"]) for value in values_by_position.values()])
    topic_id = rig.client.topic_id(rig.topic)
    cells = {number: NOON + (number - FIRST_ID) * 1_000_000 for number in keys}
    append(
        rig.oracle_file,
        (
            OracleRecord(
                id=value["id"],
                outcome="acked",
                topic_id=topic_id,
                partition=partition,
                offset=offset,
                intended="accepted",
                window_start=cells[value["id"]] // ten * ten,
                key=(keys[value["id"]],),
            )
            for (partition, offset), value in values_by_position.items()
        ),
    )


def _read_log(rig: Rig) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the value of every record by partition and offset, by a reader of the test's own."""
    reader = Consumer({"bootstrap.servers": str(rig.settings.kafka.bootstrap_servers), "group.id": "own-reader"})
    reader.assign([TopicPartition(rig.topic, p, OFFSET_BEGINNING) for p in rig.client.partitions(rig.topic)])
    log: dict[tuple[int, int], dict[str, Any]] = {}

    def read() -> bool:
        message = reader.poll(1.0)
        if message is not None and message.error() is None:
            log[int(message.partition() or 0), int(message.offset() or 0)] = json.loads(message.value() or b"")
        return len(log) == 2 * len(KEYS)

    until(read, 60.0, every=0.0)
    reader.close()
    return log


def keys_look_alike(rig: Rig) -> bool:
    """Return whether as many records as were meant are in the log, and some keys are one number or one line."""
    folded = {key.strip().replace("\r\n", "\n") for key in KEYS}
    return len(rig.evidence["keys in the log"]) == 2 * len(KEYS) and len(folded) < len(KEYS)


def keys_arrive_byte_for_byte(rig: Rig) -> Iterator[str]:
    """The log, the stream's result and the batch's have the keys of the file."""
    keys_by_place = {"the log": set(rig.evidence["keys in the log"])}
    for view in ("streaming", "batch"):
        query = f"SELECT DISTINCT k FROM {view} WHERE k <> 'a'"  # noqa: S608 -- an internal name
        keys_by_place[view] = {row[0] for row in views.open_views(rig.lake).execute(query).fetchall()}
    for place, keys in keys_by_place.items():
        if keys - {"a"} != set(KEYS) - {"a"}:
            yield f"{place}: missing {sorted(set(KEYS) - keys)}, unexpected {sorted(keys - set(KEYS))}"


def _compared_fault(variant: str, title: str, pairs: Sequence[Pair]) -> Fault:
    return Fault(
        id="F46",
        variant=variant,
        family="findings",
        title=f"two files are compared, {title}",
        inject=partial(compare_pairs, pairs=pairs),
        happened=bytes_differ,
        needs=LAKE_ALONE,
        settle=nothing,
        verdicts=frozenset(),
        checks=(),
        holds=(no_pair_is_called_equal,),
    )


def _send_fault(variant: str, title: str, *, form: str, is_joined: bool = False) -> Fault:
    return Fault(
        id="F46",
        variant=variant,
        family="input",
        title=title,
        inject=partial(send_file, form=form, is_joined=is_joined),
        happened=keys_look_alike,
        verdicts=frozenset({Verdict.CONSISTENT}),
        holds=(keys_arrive_byte_for_byte,),
    )


FAULTS = (
    _compared_fault("texts", "with texts that look like numbers", LIKE_NUMBERS),
    _compared_fault("decimals", "with decimals beyond 38 digits", LONG_DECIMALS),
    _compared_fault("doubles", "with whole numbers in doubles", WHOLE_DOUBLES),
    _compared_fault("breaks", "with line breaks in cells", LINE_BREAKS),
    Fault(
        id="F46",
        variant="control",
        family="findings",
        title="control: two files with the same cells in different bytes are compared",
        inject=compare_controls,
        happened=bytes_differ,
        needs=LAKE_ALONE,
        settle=nothing,
        verdicts=frozenset(),
        checks=(),
        holds=(every_pair_is_called_equal,),
    ),
    _send_fault("sent-csv", "keys that look alike are sent from CSV", form="csv"),
    _send_fault("sent-json", "keys that look alike are sent from JSON lines", form="jsonl"),
    _send_fault("loaded", "keys that look alike are sent, and loaded as a dimension", form="csv", is_joined=True),
)
