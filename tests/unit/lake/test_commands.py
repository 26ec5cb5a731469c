"""`cutover sql`: values from records are shown as they stand, and no cell of its CSV is a formula."""

from decimal import Decimal

import pytest

from cutover.cli.lake import _show, sql
from cutover.definition.loading import catalogue
from cutover.engine import queries
from cutover.lake.serving import views


def test_markup_and_control_characters_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    _show(["[b]k"], [("[/x]",), ("\x1b[31mred\u202e\n",), (None,)])

    shown = capsys.readouterr().out
    assert "[b]k" in shown
    assert "[/x]" in shown
    assert r"\x1b[31mred\u202e\n" in shown
    assert "null" in shown


def test_a_list_is_json_in_one_cell(capsys: pytest.CaptureFixture[str]) -> None:
    _show(["top"], [([{"value": Decimal("1.50"), "count": 2}],)])

    assert '[{"value": "1.50", "count": 2}]' in capsys.readouterr().out


def test_no_cell_of_the_csv_is_a_formula(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(catalogue, "get", lambda *_given: None)
    monkeypatch.setattr(views, "connect", lambda *_given, **_named: queries.connect())

    sql("orders", "SELECT chr(8203) || '\uff1dcmd' AS \"@k\", '-5' AS text, -5 AS n, ['=a'] AS list, NULL AS none")

    assert capsys.readouterr().out == '\'@k,text,n,list,none\n\'\\u200b\uff1dcmd,\'-5,-5,"[""=a""]",\n'
