import subprocess
import sys
from pathlib import Path

from cutover.engine import queries
from cutover.settings import ReadSettings, Settings


def test_data_larger_than_memory_spills_to_a_folder_that_is_removed(tmp_path: Path) -> None:
    spilled = 0
    with queries.open_duckdb(queries.Bounds(memory="40MB", home=tmp_path, threads=1)) as connection:
        connection.execute("SET preserve_insertion_order = true")
        connection.execute("CREATE TEMP TABLE large AS SELECT i, md5(i::VARCHAR) AS text FROM range(1000000) r(i)")
        row_count = connection.execute(
            "SELECT count(*) FROM (SELECT * FROM large ORDER BY text, i LIMIT 900000)"
        ).fetchone()
        spilled = sum(file.stat().st_size for file in tmp_path.rglob("*.tmp"))

    assert row_count == (900_000,)
    assert spilled > 0
    assert not list((tmp_path / "tmp" / "duckdb").glob("*"))


def test_bounds_of_a_reader_come_from_the_settings(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, read=ReadSettings(memory="300MiB"))

    with queries.open_duckdb(queries.make_reader_limits(settings)) as connection:
        limit = connection.execute("SELECT current_setting('memory_limit')").fetchone()

    assert limit == ("300.0 MiB",)


def test_folder_of_a_dead_process_is_removed_and_a_living_one_is_kept(tmp_path: Path) -> None:
    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    own_folder, dead = queries.make_scratch_path(tmp_path), tmp_path / "tmp" / "duckdb" / f"{died.pid}-abc"
    for folder in (own_folder, dead):
        folder.mkdir(parents=True)

    other = queries.make_scratch_path(tmp_path)

    assert other != own_folder
    assert own_folder.is_dir()
    assert not dead.exists()
