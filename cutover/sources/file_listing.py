"""Files of a table that is a file, a folder or a glob, and rejection of formats that are not read.

Other formats keep old, uncommitted and deleted rows in Parquet files, so a folder is a table of plain files only if no
folder at or above them holds the log of such a format. Of Spark's streaming file sink the log (`_spark_metadata`) tells
which files committed batches wrote: a batch that failed after it wrote files is written again under other names, so the
folder holds files twice that the log lists once. It has a file per batch, and every few batches one (`N.compact`) with
all entries up to it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from glob import escape, glob, has_magic
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from cutover.errors import DefinitionError, LakeError
from cutover.sources.csv_dialect import CSV, is_csv

READ = (
    f"a Delta or Iceberg folder, Parquet, or CSV ({', '.join(CSV)}): a file, a folder or a glob; or a table of a server"
    " or catalog (`postgresql://user@host/database#schema.table`)"
)
LOG = "_spark_metadata"
_PARQUET = b"PAR1"
_SIGNATURES = {b"ORC": "ORC", b"Obj\x01": "Avro", b"SQLite format 3": "SQLite", b"PK\x03\x04": "zip or Excel"}
_OTHER_FORMATS = {".orc": "ORC", ".avro": "Avro", ".json": "JSON", ".jsonl": "JSON", ".ndjson": "JSON"}
_BYTES_OF_SIGNATURE = 16
_DUCKDB = b"DUCK"
_DUCKDB_AT = 8
_SINK = "Spark streaming"
_MARKS = {  # format -> folders that all of its tables have
    "Delta": ("_delta_log",),
    "Hudi": (".hoodie",),
    "Paimon": ("manifest", "schema", "snapshot"),
    _SINK: (LOG,),
}


def list_table_files(source: str) -> list[str]:
    """List the files of a table, all of them Parquet or all CSV.

    Raises:
        DefinitionError: There are none, they are of other kinds, or they belong to a table of another format.
        LakeError: The log of Spark's file sink cannot be read, or a file that it lists does not exist.
    """
    path = Path(source)
    if path.is_file():
        _reject_kind(source, path)
        _reject_other_tables(source, [source])
        return [source]
    if (path / LOG).is_dir():
        _reject_other_tables(source, [str(path / "file")], read_sink=True)
        return _check_files(source, list_sink_files(path), [])
    is_pattern = has_magic(source) and not path.is_dir()
    if not is_pattern:
        _reject_other_tables(source, [str(path / "file")])
    pattern = source if is_pattern else f"{escape(str(path))}/**/*"
    paths = sorted(glob(pattern, recursive=True))  # noqa: PTH207 -- a pattern with its folder, as a shell takes it
    if is_pattern:
        return _check_files(source, paths, paths)
    _reject_other_tables(source, paths)
    visible = [file for file in paths if not is_hidden(Path(file).relative_to(path)) and Path(file).is_file()]
    return _check_files(source, [file for file in visible if _is_data_file(source, file)], visible)


def is_hidden(path: Path) -> bool:
    """Return whether Spark and its kin pass a file over: what is under way, or about the others."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.parts)


def _check_files(source: str, files: list[str], all_files: Sequence[str]) -> list[str]:
    if not files:
        suffixes = sorted({"".join(Path(file).suffixes[-2:]) for file in all_files if Path(file).is_file()} - {""})
        contents = f"files of other kinds: {', '.join(suffixes[:5])}" if suffixes else "nothing"
        msg = f"Table `{source}`: expected {READ}, found {contents}."
        raise DefinitionError(msg)
    if len({is_csv(file) for file in files}) > 1:
        msg = f"Table `{source}`: expected files of one kind, got Parquet and CSV."
        raise DefinitionError(msg)
    _reject_other_tables(source, files, read_sink=True)
    return files


def _is_data_file(source: str, file: str) -> bool:
    """Return whether a file of a folder holds rows of the table; notes and pictures next to them do not.

    Raises:
        DefinitionError: It holds rows in another format, so that the table would be read in part.
    """
    name = Path(file).name.lower()
    if name.endswith((".parquet", *CSV)):
        return True
    start = _read_start(Path(file))  # Hive and Impala name files without a suffix, or with one of their own
    if start.startswith(_PARQUET):
        return True
    kind = _OTHER_FORMATS.get(Path(name).suffix) or _find_signature(start)
    if kind in {"ORC", "Avro"}:
        _reject(source, f"`{Path(file).name}`, which is {kind}")
    return False


def _read_start(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_BYTES_OF_SIGNATURE)


def _find_signature(start: bytes) -> str | None:
    if start[_DUCKDB_AT : _DUCKDB_AT + len(_DUCKDB)] == _DUCKDB:
        return "a DuckDB database"
    return next((kind for signature, kind in _SIGNATURES.items() if start.startswith(signature)), None)


def _reject_kind(source: str, path: Path) -> None:
    """Reject a file that is neither CSV by its name nor Parquet by its first bytes."""
    if is_csv(path.name) or path.name.lower().endswith(".parquet"):
        return
    start = _read_start(path)
    if start.startswith(_PARQUET):
        return
    kind = _OTHER_FORMATS.get(path.suffix.lower()) or _find_signature(start)
    if kind in {"SQLite", "a DuckDB database"}:
        scheme = "sqlite" if kind == "SQLite" else "duckdb"
        msg = f"Table `{source}`: expected a table, got {'an SQLite' if scheme == 'sqlite' else 'a DuckDB'} database."
        raise DefinitionError(
            msg + f"\nHint: `{scheme}:///{str(path.absolute()).lstrip('/')}#TABLE` names a table of it."
        )
    _reject(source, f"`{path.name}`" + (f", which is {kind}" if kind else ""))


def _reject(source: str, found: str) -> NoReturn:
    msg = f"Table `{source}`: expected {READ}, got {found}."
    raise DefinitionError(msg + "\nHint: convert it; text with a delimiter is read once its name ends in .csv.")


def find_iceberg_metadata(folder: Path) -> list[Path]:
    """Return the metadata files of an Iceberg table in a folder; empty: it holds none."""
    metadata = folder / "metadata"
    if not metadata.is_dir():
        return []
    return [file for file in metadata.iterdir() if ".metadata.json" in file.name or file.name.endswith(".metadata")]


def _reject_other_tables(source: str, files: Iterable[str], *, read_sink: bool = False) -> None:
    """Reject files that belong to a table whose rows are not simply those of all of its files.

    Args:
        source: As the user names the table.
        files: Its files.
        read_sink: Whether the log of Spark's file sink in the table's own folder is read.

    Raises:
        DefinitionError: Names the format and the folder.
    """
    parents = {Path(file).absolute().parent for file in files}
    for folder in sorted({folder for parent in parents for folder in (parent, *parent.parents)}):
        kind = next((kind for kind, marks in _MARKS.items() if all((folder / mark).is_dir() for mark in marks)), None)
        if kind is None and find_iceberg_metadata(folder):
            kind = "Iceberg"
        if kind == _SINK and read_sink and folder == Path(source).absolute():
            continue
        if kind is not None:
            msg = f"Table `{source}`: expected Parquet files, got those of the {kind} table `{folder}`."
            if kind in {"Hudi", "Paimon"}:
                raise DefinitionError(msg + f"\nHint: {kind} is not read; export a snapshot of it to Parquet or Delta.")
            raise DefinitionError(msg + "\nHint: name its folder; among its files are some that it no longer lists.")


_VERSION = "v1"
_COMPACT = ".compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SinkEntry:
    """Entry of the log: one file of a committed batch."""

    path: str  # a URI of the place at which it was written
    size: int
    is_deleted: bool


def list_sink_files(table: Path) -> list[str]:
    """List the files of all committed batches, in order of their paths.

    Raises:
        LakeError: The log lacks a batch or cannot be parsed, or a file is missing or has another size.
    """
    entries: dict[str, _SinkEntry] = {}
    for file in _list_log_files(table):
        for entry in _read_log_file(table, file):
            entries[entry.path] = entry
    return sorted(_find_file(table, entry) for entry in entries.values() if not entry.is_deleted)


def _list_log_files(table: Path) -> list[Path]:
    """Return the newest compacted file and the batches after it."""
    batches: dict[int, Path] = {}
    compacted: dict[int, Path] = {}
    for file in (table / LOG).iterdir():
        number = file.name.removesuffix(_COMPACT)
        if number.isdigit():
            (compacted if file.name.endswith(_COMPACT) else batches)[int(number)] = file
    if not batches and not compacted:
        _reject_log(table, "nothing that a committed batch wrote")
    start = max(compacted, default=-1)
    later = sorted(number for number in batches if number > start)
    if later != list(range(start + 1, start + 1 + len(later))):
        missing = next(n for n, number in enumerate(later, start + 1) if n != number)
        _reject_log(table, f"no entry of batch {missing}")
    return [*([compacted[start]] if start >= 0 else []), *(batches[number] for number in later)]


def _read_log_file(table: Path, file: Path) -> list[_SinkEntry]:
    lines = file.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != _VERSION:
        _reject_log(table, f"`{file.name}` of version {lines[0][:20] if lines else 'none'!r}")
    try:
        return [_parse_entry(json.loads(line)) for line in lines[1:] if line]
    except (ValueError, KeyError, TypeError):
        _reject_log(table, f"`{file.name}`, which is no list of files")


def _parse_entry(entry: Mapping[str, object]) -> _SinkEntry:
    action = entry["action"]
    if action not in {"add", "delete"}:
        raise ValueError(action)
    return _SinkEntry(path=str(entry["path"]), size=int(str(entry["size"])), is_deleted=action == "delete")


def _find_file(table: Path, entry: _SinkEntry) -> str:
    """Return the path of a listed file; a folder that was moved holds it under the same relative path."""
    written = Path(unquote(urlsplit(entry.path).path))
    tails = [Path(*written.parts[n:]) for n in range(1, len(written.parts))]
    places = (
        [written, *(table / tail for tail in tails)]
        if written.is_relative_to(table.absolute())
        else [table / tail for tail in tails]
    )
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        _reject_log(table, f"no file `{written.name}`, which is listed")
    if path.stat().st_size != entry.size:
        _reject_log(table, f"{path.stat().st_size:,} bytes of `{written.name}` instead of {entry.size:,}")
    return str(path)


def _reject_log(table: Path, found: str) -> NoReturn:
    msg = f"Table `{table}`: expected every file that the log of Spark's sink (`{LOG}`) lists, found {found}."
    raise LakeError(msg + "\nHint: read a copy that `INSERT ... SELECT` made of it.", runbook="TableUnreadable")
