"""What is no job, or a job in part only: nothing is called sound that was not read."""

import json
from pathlib import Path

import pytest

from cutover.cli import app
from cutover.parity.script import check_script


@pytest.mark.parametrize(
    "text", ["this is not sql", "hello world;", "SELEC * FORM x;", "x = 1", "insert a;", "TABLE_OF(x)", "'rows'"]
)
def test_a_bare_expression_is_no_sql(text: str) -> None:
    (finding,) = [one for one in check_script(text, "x.sql") if "no statement" in one.what]

    assert (str(finding.construct), finding.line) == ("not-understood", 1)


@pytest.mark.parametrize("text", ["VALUES (1, 2)", "(SELECT 1)", "USE mart; SET a.b = c", "CREATE TABLE t (a INT)"])
def test_statements_without_rows_are_sql(text: str) -> None:
    assert check_script(text, "x.sql") == ()


def test_a_file_that_cannot_be_read_hides_nothing_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"broken.py": "def (", "found.sql": "SELECT rand() FROM t", "sound.sql": "SELECT a FROM t"}
    broken, found, sound = (tmp_path / name for name in texts)
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    assert app.main(["parity", str(broken), str(found), "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(Path(row["file"]).name, row["construct"]) for row in rows] == [
        ("found.sql", "random"),
        ("broken.py", "not-understood"),
    ]
    assert "expected Python" in rows[1]["what"]
    assert app.main(["parity", str(broken), str(sound)]) == 2
    assert app.main(["parity", str(tmp_path / "none.sql"), str(sound)]) == 2
    assert app.main(["parity", str(sound)]) == 0
