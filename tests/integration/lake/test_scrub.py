"""`cutover verify --files`: the bytes of every listed file, in pieces, whether or not anybody reads them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from cutover.cli import app
from cutover.lake.integrity import scrub
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, START, lake_of, write
from tests.integration.reconcile.test_commands import DEFINITION, SALES
from tests.support.history.journal_rows import record_stage

KINDS = ("_kind=partial", "_kind=ledger", "_kind=epoch", "/batch/", "/batch_index/", "_control/gate/")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return an installation that commands find, with both sides of some sales and a row of the gate."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "sales.py").write_text(DEFINITION, encoding="utf-8")
    monkeypatch.setenv("CUTOVER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUTOVER_PIPELINES", str(tmp_path / "pipelines"))
    settings, lake_content = Settings(home=tmp_path / "home"), lake_of(SALES)
    write(settings, lake_content)
    record_stage(PipelineLake(settings, PIPELINE), "LAMBDA", event="rolled_back", at=START)
    return settings


def list_data_files(settings: Settings) -> Iterator[Path]:
    """Yield the data files that the lake's tables list."""
    for folder in sorted(Path(settings.lake_uri).rglob("_delta_log")):
        yield from (folder.parent / path for path in delta.paths(DeltaTable(str(folder.parent))))


def one_of(settings: Settings, kind: str) -> Path:
    return next(file for file in list_data_files(settings) if kind in str(file))


def flip(file: Path) -> None:
    content = file.read_bytes()
    place = len(content) // 3
    file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])


@pytest.mark.quick
def test_sound_files_are_all_looked_at(lake: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    files = list(list_data_files(lake))

    exit_code = app.main(["verify", "sales", "--files", "--json"])

    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert exit_code == 0
    assert printed == {
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "listed": len(files),
        "is_whole": True,
        "unnamed": 0,
        "damaged": [],
    }


@pytest.mark.quick
@pytest.mark.parametrize("kind", KINDS)
def test_one_flipped_bit_names_the_file(lake: Settings, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    file = one_of(lake, kind)
    flip(file)

    exit_code = app.main(["verify", "sales", "--files"])

    assert (exit_code, file.name in "".join(capsys.readouterr().out.split())) == (2, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_removed_is_named(lake: Settings, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    file = one_of(lake, kind)
    file.unlink()

    exit_code = app.main(["verify", "sales", "--files"])

    assert (exit_code, file.name in "".join(capsys.readouterr().out.split())) == (2, True)


@pytest.mark.quick
def test_each_run_goes_on_where_the_one_before_stopped(lake: Settings) -> None:
    count = len(list(list_data_files(lake)))

    scrub_results = [scrub.scrub_files(PipelineLake(lake, PIPELINE), max_bytes=1) for _ in range(count + 1)]

    assert [result.files for result in scrub_results] == [1] * (count + 1)
    assert [result.is_whole for result in scrub_results] == [*[False] * (count - 1), True, False]


def test_a_run_over_everything_begins_with_the_first_file(lake: Settings) -> None:
    count = len(list(list_data_files(lake)))
    pipeline_lake = PipelineLake(lake, PIPELINE)
    scrub.scrub_files(pipeline_lake, max_bytes=1)

    assert scrub.scrub_files(pipeline_lake, max_bytes=None).files == count


def test_damage_that_one_piece_found_is_found_again_by_the_next_round(lake: Settings) -> None:
    flip(one_of(lake, "/batch/"))
    count = len(list(list_data_files(lake)))

    rounds = [
        sum(len(scrub.scrub_files(PipelineLake(lake, PIPELINE), max_bytes=1).damaged) for _ in range(count))
        for _ in range(2)
    ]

    assert rounds == [1, 1]


def test_a_file_of_somebody_else_is_counted_as_unnamed(lake: Settings) -> None:
    pipeline_lake = PipelineLake(lake, PIPELINE)
    uri = pipeline_lake.batch_uri()
    write_deltalake(uri, DeltaTable(uri).to_pyarrow_table(), mode="append")

    scrub_result = scrub.scrub_files(pipeline_lake)

    assert (scrub_result.unnamed, scrub_result.damaged) == (1, ())
