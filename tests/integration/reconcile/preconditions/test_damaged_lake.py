"""Damaged lakes: every command that reads one reports the damage with exit code 2 and without a stack trace."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutover.cli import app
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, START, lake_of, write
from tests.integration.reconcile.test_commands import DEFINITION, SALES
from tests.support.history.journal_rows import record_stage

COMMANDS = (
    ("sql", "sales", "SELECT * FROM serving"),
    ("reconcile", "sales"),
    ("explain", "sales", START.isoformat(), "a,1"),
    ("watch", "sales", "--once"),
    ("gate", "sales"),
    ("stream", "sales", "--drain"),
    ("batch", "sales"),
)
TABLES = ("stream-0/stream", "batch_index", "_control/gate")


def data(table: Path) -> Path:
    return next(file for file in sorted(table.rglob("*.parquet")) if "_delta_log" not in file.parts)


def of_another_shape(table: Path) -> None:
    pq.write_table(pa.table({"other": [1]}), data(table))


def of_another_release(table: Path) -> None:
    for file in table.rglob("*.parquet"):
        rows = pq.read_table(file, partitioning=None)
        for name in {"_record", "evidence"} & set(rows.column_names):
            texts = pa.array(['{"epoch": 1, "later": {}}'] * rows.num_rows, pa.string())
            pq.write_table(rows.set_column(rows.column_names.index(name), name, texts), file)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no Parquet": lambda table: data(table).write_bytes(b"x" * 500),
    "cut off": lambda table: data(table).write_bytes(data(table).read_bytes()[:-40]),
    "another shape": of_another_shape,
    "another release": of_another_release,
    "empty log entry": lambda table: max((table / "_delta_log").glob("*.json")).write_bytes(b""),
}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the lake of an installation without a broker that commands find."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "sales.py").write_text(DEFINITION, encoding="utf-8")
    for name, value in {
        "HOME": str(tmp_path / "home"),
        "PIPELINES": str(tmp_path / "pipelines"),
        "KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "KAFKA__TIMEOUT_SECONDS": "0.2",
    }.items():
        monkeypatch.setenv(f"CUTOVER_{name}", value)
    settings = Settings(home=tmp_path / "home")
    lake = lake_of(SALES)
    write(settings, lake)
    record_stage(PipelineLake(settings, PIPELINE), "LAMBDA", event="rolled_back", at=START)
    return Path(settings.lake_uri)


@pytest.mark.quick("cut off-batch_index", "cut off-stream")
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_said_without_a_stack(
    lake: Path, capsys: pytest.CaptureFixture[str], table: str, damage: str
) -> None:
    folder = next(
        log_folder for log_folder in lake.rglob("_delta_log") if log_folder.parent.as_posix().endswith(table)
    ).parent
    DAMAGES[damage](folder)

    codes = {command[0]: app.main(command) for command in COMMANDS}

    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert 1 not in codes.values()
    assert 2 in codes.values()
