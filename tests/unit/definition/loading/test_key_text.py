"""Keys as text: a key copied from terminal, report, JSON, CSV or shell command parses to the same key."""

import io
import json
import shlex
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st

from cutover.cli import app
from cutover.definition.loading.key_text import format_argument, format_columns, format_values, make_cells, parse_key
from cutover.errors import DefinitionError
from cutover.output.cells import literal_text, write_rows
from cutover.reconcile.report.steps import explain_line
from cutover.reconcile.result.codec import scalar
from cutover.reconcile.result.text import message, when

_LETTERS = st.sampled_from("\"',=\\ nulx{}[]:-+@#$`!*?~&|;<>()\n\t\r\x00\x1b\u202e\u2212\u00e4\u65e5\U0001f600a1")
TEXTS = st.one_of(
    st.text(_LETTERS, max_size=8),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(
        ["null", '"null"', "", " ", "--json", "-5", "--", "'=1", "''=1", "k0=a", "k0=a, k1=b", '{"k0": 1}', "{", "NULL"]
    ),
    st.sampled_from(["007", "1e5", "true", "2013-02-08", r"C:\new\x41", r"\\server", "'", '"', ",", "a,b", "a\nb"]),
)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "VARCHAR": TEXTS,
    "BOOLEAN": st.booleans(),
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DECIMAL(38,9)": st.decimals(-(10**20), 10**20, places=9, allow_nan=False),
    "DOUBLE": st.floats(),
    "DATE": st.dates(date(1, 1, 1)),
    "TIMESTAMPTZ": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001
}
KEYS = st.lists(
    st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), st.none() | VALUES[kind])), max_size=3
)
Key = list[tuple[str, Any]]
TRICKY: Key = [("VARCHAR", "k1=a"), ("VARCHAR", None), ("VARCHAR", "null")]


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def is_same(engine: duckdb.DuckDBPyConnection, typed: list[str | None], key: Key) -> bool:
    """Return whether texts, read as the columns' types, are the values, as `explain` looks a row up."""
    pairs = zip(typed, key, strict=True)
    return all(
        engine.execute(f"SELECT CAST(? AS {kind}) IS NOT DISTINCT FROM CAST(? AS {kind})", [text, value]).fetchall()  # noqa: S608 -- a type
        == [(True,)]
        for text, (kind, value) in pairs
    )


def name_columns(key: Key) -> dict[str, Any]:
    return {f"k{number}": scalar(value) for number, (_, value) in enumerate(key)}


@given(KEYS)
@example(TRICKY)
@example([("VARCHAR", "-a")])
def test_key_of_any_types_is_read_back_from_every_form(engine: duckdb.DuckDBPyConnection, key: Key) -> None:
    named_values = name_columns(key)
    columns = list(named_values)
    texts = [
        format_values(named_values.values()),
        format_columns(named_values),
        json.dumps(named_values, allow_nan=False),
    ]

    for text in texts:
        assert is_same(engine, parse_key(text, columns), key), text
        assert message(text) == text, "what a terminal shows is what is typed"


@given(KEYS.filter(bool))
@example(TRICKY)
def test_key_is_read_back_from_a_line_of_the_csv(engine: duckdb.DuckDBPyConnection, key: Key) -> None:
    columns = name_columns(key)
    file = io.StringIO()
    write_rows(file, [["2013-02-08T14:00:00Z", *make_cells(columns.values())]])
    line = file.getvalue().removesuffix("\n").partition(",")[2]

    assert is_same(engine, parse_key(line, list(columns)), key)


@given(KEYS)
@example([("VARCHAR", "--json")])
def test_suggested_command_is_read_back_by_a_shell(engine: duckdb.DuckDBPyConnection, key: Key) -> None:
    columns = name_columns(key)

    words = shlex.split(explain_line("flights", "2013-02-08T14:00:00.25Z", columns))

    assert words[:-1] == ["cutover", "explain", "flights", "2013-02-08T14:00:00.25Z"]
    assert is_same(engine, parse_key(words[-1], list(columns)), key)


@given(KEYS)
@example([("VARCHAR", "--")])
@example([("VARCHAR", "--version")])
@example([("VARCHAR", "--version=3"), ("VARCHAR", None)])
@example([("VARCHAR", "--help")])
def test_key_in_a_table_of_the_terminal_can_be_typed(engine: duckdb.DuckDBPyConnection, key: Key) -> None:
    columns = name_columns(key)
    command = vars(typer.main.get_command(app.build_app("explain")))["commands"]["explain"]

    context = command.make_context("explain", ["flights", "2013-02-08", format_argument(columns)])

    assert is_same(engine, parse_key(context.params["key"], list(columns)), key)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)))  # noqa: DTZ001
def test_start_of_a_window_is_read_back_with_its_microseconds(at: datetime) -> None:
    text = when(str(scalar(at)))

    assert datetime.fromisoformat(text).replace(tzinfo=UTC) == at
    assert literal_text(text) == text


def test_forms_of_one_key() -> None:
    key = {"origin": "JFK", "note": 'say "a, b"', "flight": None, "word": "null", "cost": scalar(Decimal("1.50"))}

    assert format_values(key.values()) == 'JFK,"say ""a, b""",null,"null",1.5'
    assert format_columns(key) == 'origin=JFK, note="say ""a, b""", flight=null, word="null", cost=1.5'
    assert format_columns({"a": "", "b": True, "c": "x\n"}) == r'a="", b=true, c=x\n'


@pytest.mark.parametrize(
    ("typed", "columns", "message"),
    [
        ("JFK", ("origin", "carrier"), "expected 2 values (origin, carrier), got 1"),
        ("JFK,UA,1", ("origin", "carrier"), "got 3"),
        ("origin=JFK", ("origin", "carrier"), "KEY: expected values separated by commas"),
        ("origin=JFK, carrier=UA, x=1", ("origin", "carrier"), "KEY: expected values separated by commas"),
        ("JFK", (), "expected 0 values (no columns), got 1"),
        ('"a', ("origin",), "KEY: expected values separated by commas"),
    ],
)
def test_key_of_other_columns_is_rejected(typed: str, columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        parse_key(typed, columns)

    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["-5,UA"], ["-5", "UA"]),
        (["--", "-5,UA"], ["-5", "UA"]),
        (["--json,UA", "--json"], ["--json", "UA"]),
        (["origin=-5, carrier=null"], ["-5", None]),
        (['{"carrier": "UA", "origin": ""}'], ["", "UA"]),
    ],
)
def test_key_that_begins_like_an_option_reaches_its_command(
    words: list[str], key: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: list[object] = []

    def explain(_lake: object, window: datetime, typed: object) -> None:
        arguments.extend([window, typed])
        raise DefinitionError(str(typed))

    monkeypatch.setattr("cutover.reconcile.cli.reconcile.explain_cell", explain)

    assert app.main(["explain", "flights", "2013-02-08 14:00:07.25", *words]) == 2
    assert arguments == [datetime(2013, 2, 8, 14, 0, 7, 250_000, UTC), key]
