"""`cutover sql`: values from records are shown unchanged, and no cell of its CSV is a formula."""

from decimal import Decimal
from pathlib import Path

import pytest

from cutover.cli.lake import sql, tabulate_rows
from cutover.definition.loading import catalogue
from cutover.definition.loading.key_text import parse_key
from cutover.engine import queries
from cutover.errors import DefinitionError
from cutover.lake.serving import views
from cutover.output.console import Output, render, wrap_command


@pytest.fixture
def query_without_views(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run queries against a database without views, in a separate folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "get", lambda *_arguments: None)
    monkeypatch.setattr(views, "open_views", lambda *_arguments, **_options: queries.open_duckdb())


def _print_rows(names: list[str], rows: list[tuple[object, ...]]) -> None:
    render(iter([Output(lines=[tabulate_rows(names, rows)])]))


def test_markup_and_control_characters_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    _print_rows(["[b]k"], [("[/x]",), ("\x1b[31mred\u202e\n",), (None,)])

    output = capsys.readouterr().out
    assert "[b]k" in output
    assert "[/x]" in output
    assert r"\x1b[31mred\u202e\n" in output
    assert "null" in output


def test_code_of_an_emoji_in_data_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    render(iter([Output(lines=["key :x: of [b]", tabulate_rows([":x:"], [(":warning:",)])])]))

    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["key :x: of [b]", ":x:", ":warning:"]


def test_a_list_is_json_in_one_cell(capsys: pytest.CaptureFixture[str]) -> None:
    _print_rows(["top"], [([{"value": Decimal("1.50"), "count": 2}],)])

    assert '[{"value": "1.50", "count": 2}]' in capsys.readouterr().out


@pytest.mark.usefixtures("query_without_views")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS a",
        "WITH b AS (SELECT 1 AS a) FROM b",
        "FROM range(1) AS t(a)",
        "DESCRIBE SELECT 1 AS a",
        "SHOW TABLES",
        "SUMMARIZE SELECT 1 AS a",
        "VALUES (1)",
        "EXPLAIN SELECT 1 AS a",
        "explain analyze SELECT 1 AS a",
        "PIVOT (SELECT 1 AS a, 2 AS b) ON a IN (1) USING sum(b)",
    ],
)
def test_every_read_only_query_is_answered(query: str) -> None:
    wrap_command(sql)("orders", query)


@pytest.mark.usefixtures("query_without_views")
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "none"),
        (" -- a remark", "none"),
        ("SELECT 1; SELECT 2", "SELECT and SELECT"),
        ("COPY (SELECT 1) TO 'out.csv'", "COPY"),
        ("ATTACH 'other.db'", "ATTACH"),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'", "COPY"),
        ("explain (analyze, format json) COPY (SELECT 1) TO 'out.csv'", "COPY"),
        ("/* x */ EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'", "EXPLAIN"),
        ("INSTALL httpfs", "LOAD"),
        ("SELEC 1", "Parser Error"),
        ("PIVOT (SELECT 1 AS a, 2 AS b) ON a USING sum(b)", "a PIVOT that names no values"),
    ],
)
def test_non_query_is_rejected(tmp_path: Path, query: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        wrap_command(sql)("orders", query)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("query_without_views")
def test_no_cell_of_the_csv_is_a_formula(capsys: pytest.CaptureFixture[str]) -> None:
    wrap_command(sql)(
        "orders", "SELECT chr(8203) || '\uff1dcmd' AS \"@k\", '-5' AS text, -5 AS n, ['=a'] AS list, NULL AS none"
    )

    assert capsys.readouterr().out == '\'@k,text,n,list,none\n\'\\u200b\uff1dcmd,\'-5,-5,"[""=a""]",\n'


TEXTS = [
    *("-x", "--help", "=1", "'x", "'=1", "''=1", "'-x", "\u2212x", r"\u2212x", "-5", "@", "'"),
    *("a\tb", r"a\tb", "a\nb", r"a\nb", "\tx", r"\tx", "'\tx", r"'\tx", "\\", r"\\", r"\\t"),
    *("null", "", " x", "x ", "a=b", "k=x", 'a"b', "a,b", "{", '{"k": "x"}', "O'Hare"),
]


@pytest.mark.usefixtures("query_without_views")
def test_texts_of_the_csv_are_distinct_and_can_be_parsed(capsys: pytest.CaptureFixture[str]) -> None:
    values = ", ".join("('" + text.replace("'", "''") + "')" for text in TEXTS)

    wrap_command(sql)("orders", f"SELECT k FROM (VALUES {values}) AS t(k)")  # noqa: S608 -- literals of this test

    lines = capsys.readouterr().out.splitlines()[1:]
    assert [parse_key(line, ["k"]) for line in lines] == [[text] for text in TEXTS]
    assert len(set(lines)) == len(TEXTS)


@pytest.mark.usefixtures("query_without_views")
def test_a_null_of_the_csv_is_not_text(capsys: pytest.CaptureFixture[str]) -> None:
    wrap_command(sql)("orders", "SELECT * FROM (VALUES (NULL, '', 'null')) AS t(a, b, c)")

    assert capsys.readouterr().out == 'a,b,c\n,"","null"\n'
