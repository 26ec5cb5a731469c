"""`cutover sql` on a terminal: values from records are shown as they stand."""

from decimal import Decimal

import pytest

from cutover.lake.commands import _show


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
