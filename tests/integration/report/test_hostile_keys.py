"""Keys like markup, links, formulas or control characters stay text in every command that shows a difference."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cutover.cli import app
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Sale, edit_batch_row, lake_of, reconcile, write
from tests.integration.reconcile.test_commands import DEFINITION

HOSTILE = (
    "a|b`<script>alert(1)</script>[x](http://e)\n# @all *b* \x1b[31m",
    "[bold red]=1+1[/] \r\t\u202e\x07",
    "\"\N{ZERO WIDTH SPACE},'; DROP TABLE rows; --\x9b2J",
)
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
COMMANDS = (
    ("differences", "sales"),
    ("history", "sales"),
    ("history", "sales", "--window", "2026-01-01T00:00:00Z"),
    ("report", "sales", "--format", "markdown"),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "sales.py").write_text(DEFINITION, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUTOVER_HOME", str(folder / "home"))
        patch.setenv("CUTOVER_PIPELINES", str(folder / "pipelines"))
        yield Settings(home=folder / "home", pipelines=folder / "pipelines")


@pytest.fixture(scope="module")
def diverged(home: Settings) -> Report:
    """Return a comparison in which every row of a hostile key differs; tests only read it."""
    lake = lake_of([Sale(hour=hour, shop=shop) for hour in range(3) for shop in ("a", *HOSTILE)])
    for at, row in enumerate(lake.batch):
        if row["shop"] in HOSTILE:
            lake = edit_batch_row(lake, at, lambda row: row | {"revenue": 99})
    write(home, lake)
    return reconcile(PipelineLake(home, PIPELINE))


def list_texts(value: Any) -> Iterator[str]:
    """Yield every text of a JSON object, however deep."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from list_texts(item)
    if isinstance(value, str):
        yield value


@pytest.mark.quick
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_terminal_shows_no_control_character_of_a_key(
    diverged: Report, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    app.main([*command])

    output = capsys.readouterr()
    assert diverged.finding.verdict is Verdict.DIVERGED
    assert len(output.out) > len(command)
    assert CONTROL.findall(output.out + output.err) == []


@pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
@pytest.mark.usefixtures("diverged")
def test_json_is_one_value_that_holds_keys_to_the_letter(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    app.main([*command, "--json"])

    output = capsys.readouterr().out
    assert output.count("\n") == 1
    assert CONTROL.findall(output) == []
    texts = set(list_texts(json.loads(output)))
    if command == COMMANDS[0]:
        assert set(HOSTILE) <= texts


@pytest.mark.usefixtures("diverged")
def test_parquet_of_differences_holds_keys_to_the_letter(tmp_path: Path) -> None:
    file = tmp_path / "all.parquet"

    assert app.main(["report", "sales", "--differences", str(file)]) == 0

    rows = pq.read_table(file).to_pylist()
    assert sorted(row["key"]["shop"] for row in rows) == sorted(HOSTILE * 3)
