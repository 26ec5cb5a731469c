"""Digests of commits: a modified entry of the Delta log is detected."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction

from cutover.lake.tables import checksums, commits, data_files, delta, delta_log
from cutover.lake.tables.schemas import make_arrow_schema

SCHEMA = make_arrow_schema({"n": pa.int64()})
Write = Callable[[str], None]


def file_of(uri: str, n: int) -> AddAction:
    return data_files.write_data_file(uri, pa.table({"n": [n]}, schema=SCHEMA), checksums.new_stem("rows"))


def create(uri: str) -> None:
    files = [file_of(uri, 1), file_of(uri, 2)]
    commits.create_table(uri, files, Schema.from_arrow(SCHEMA), configuration=delta.CONFIGURATION)


def append(uri: str) -> None:
    commits.append(create_and_open(uri), pa.table({"n": [3]}, schema=SCHEMA))


def replace(uri: str) -> None:
    table = create_and_open(uri)
    commits.replace(table, delta.actions(table)[:1], [file_of(uri, 4)])


def overwrite(uri: str) -> None:
    commits.overwrite(create_and_open(uri), [file_of(uri, 5)], Schema.from_arrow(SCHEMA))


def create_and_open(uri: str) -> DeltaTable:
    create(uri)
    return delta.open_table(uri)


@pytest.mark.parametrize("write", [create, append, replace, overwrite])
@pytest.mark.parametrize("action", ["add", "remove"])
def test_entry_that_lists_other_files_than_were_committed_is_damaged(tmp_path: Path, write: Write, action: str) -> None:
    uri = str(tmp_path / "t")
    write(uri)
    entry = max((tmp_path / "t" / delta_log.FOLDER).glob("*.json"))
    lines = entry.read_text(encoding="utf-8").splitlines()
    damage_before = delta_log.find_damage(uri, read=True)

    remaining_lines = [line for line in lines if action not in json.loads(line)]
    entry.write_text("\n".join(remaining_lines), encoding="utf-8")
    damage = delta_log.find_damage(uri, read=True)

    assert damage_before is None
    if action == "remove" and write in {create, append}:
        assert len(remaining_lines) == len(lines)
    else:
        assert damage is not None
        assert (Path(damage.file).name, "digest" in damage.what) == (entry.name, True)


@pytest.mark.parametrize(("action", "field"), [("add", "path"), ("add", "size"), ("remove", "path")])
def test_action_whose_field_has_another_name_is_damaged(tmp_path: Path, action: str, field: str) -> None:
    uri = str(tmp_path / "t")
    replace(uri)
    entry = max((tmp_path / "t" / delta_log.FOLDER).glob("*.json"))
    head, name, tail = entry.read_text(encoding="utf-8").partition(f'{{"{action}":')
    entry.write_text(head + name + tail.replace(f'"{field}":', f'"{field[:-1]}x":', 1), encoding="utf-8")

    damage = delta_log.find_damage(uri, read=True)

    assert damage is not None
    assert (Path(damage.file).name, damage.what) == (entry.name, "holds an action that lacks a field")
    assert isinstance(delta_log.list_removed_paths(uri), set)


@pytest.mark.parametrize("written", ['"batch runs"', '"version":7', '"appId"', '{"txn":'])
def test_entry_with_another_transaction_than_was_committed_is_damaged(tmp_path: Path, written: str) -> None:
    uri = str(tmp_path / "t")
    commit = CommitProperties(app_transactions=[Transaction("batch runs", 7), Transaction("other", 1)])
    commits.append(create_and_open(uri), pa.table({"n": [3]}, schema=SCHEMA), commit=commit)
    entry = max((tmp_path / "t" / delta_log.FOLDER).glob("*.json"))
    text = entry.read_text(encoding="utf-8")
    damage_before = delta_log.find_damage(uri, read=True)
    changed = written.replace("7", "6").replace("b", "c", 1).replace("Id", "Ie").replace("txn", "txm")

    entry.write_text(text.replace(written, changed, 1), encoding="utf-8")
    damage = delta_log.find_damage(uri, read=True)

    assert (changed != written, written in text, damage_before) == (True, True, None)
    assert damage is not None
    assert Path(damage.file).name == entry.name


def test_handle_shows_what_an_overwrite_lists(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = create_and_open(uri)
    added_file = file_of(uri, 6)

    commits.overwrite(table, [added_file], Schema.from_arrow(SCHEMA))

    assert (delta.paths(table), int(table.version())) == ([added_file.path], 1)
