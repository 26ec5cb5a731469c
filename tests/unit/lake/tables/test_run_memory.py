"""Values cached during one run: read again once a file of their folder changes in any way."""

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from cutover.lake.tables.checksums import read_once, remember


def rewrite_with_same_times(file: Path) -> None:
    stat_before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(stat_before.st_atime_ns, stat_before.st_mtime_ns))


def replace_file(file: Path) -> None:
    stat_before = file.stat()
    other = file.with_name("other")
    other.write_text("two")
    os.utime(other, ns=(stat_before.st_atime_ns, stat_before.st_mtime_ns))
    other.replace(file)


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda file: file.write_text("longer"),
    "same size and time": rewrite_with_same_times,
    "another file": replace_file,
    "gone": Path.unlink,
    "one more": lambda file: file.with_name("more").touch(),
}


@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_is_read_once_and_again_once_it_changed(tmp_path: Path, change: str, *, is_linked: bool) -> None:
    log, table = tmp_path / "elsewhere", tmp_path / "table"
    log.mkdir()
    table.mkdir()
    file = (log if is_linked else table) / "0.json"
    file.write_text("one")
    if is_linked:
        (table / "log").symlink_to(log)
    read = Mock(side_effect=[1, 2, 3])
    with read_once():
        assert [remember(str(table), "n", read) for _ in range(3)] == [1, 1, 1]

        CHANGES[change](file)

        expected_reads = [2, 3] if change == "gone" else [2, 2]  # a folder without files is read each time
        assert [remember(str(table), "n", read) for _ in range(2)] == expected_reads


def test_values_of_one_run_are_read_again_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "0.json").touch()
    read = Mock(side_effect=[1, 2, 3])

    for expected in (1, 2):
        with read_once():
            assert remember(str(tmp_path), "n", read) == expected
    assert remember(str(tmp_path), "n", read) == 3


@pytest.mark.parametrize("folder", ["{}", "{}/none", "s3://bucket/table"])
def test_unreadable_folder_is_read_each_time(tmp_path: Path, folder: str) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    read = Mock(side_effect=[1, 2])

    with read_once():
        assert [remember(folder.format(tmp_path), "n", read) for _ in range(2)] == [1, 2]


def test_two_names_of_one_folder_are_cached_separately(tmp_path: Path) -> None:
    (tmp_path / "0.json").touch()

    with read_once():
        assert [remember(str(tmp_path), name, name.upper) for name in ("a", "b", "a")] == ["A", "B", "A"]
