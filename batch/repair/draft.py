"""Draft of a repair: rows that were computed and compared but not published, as files in a separate folder.

`<lake>/<pipeline>/<result fingerprint>/repairs/<id>/`. Its record is written last, so a folder without one was
left by a killed process. The folder stays once the repair is published: it holds the rows that were served until then.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

import pyarrow as pa
from pyarrow import fs

from cutover import json_text
from cutover.batch.write.publish import RunOutput
from cutover.engine import storage
from cutover.errors import LakeError
from cutover.json_text import EXACT
from cutover.lake.batch_runs import BatchRun, Range
from cutover.lake.tables import checksums, data_files
from cutover.lake.tables.schemas import BATCH_INDEX, batch_ledger_schema, batch_schema
from cutover.pipeline_lake import PipelineLake

FOLDER, RECORD = "repairs", "draft.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairDraft:
    """Rows that a repair would publish, with the state in which they were computed."""

    __pydantic_config__ = EXACT
    run: BatchRun  # as it would be recorded; its id is that of the repair
    windows: tuple[Range, ...]
    newest_run: str | None  # on which it builds
    stage: str
    losses: int  # accepted so far
    code: str  # digest of the code that determines results
    created: str  # ISO 8601
    expires: str
    sequence: int = 0  # place among the drafts that existed when it was created
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # served, batch, streaming -> kind -> rows
    served_from: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)  # content -> path in the folder

    @property
    def repair_id(self) -> str:
        """32 hex digits: also the id of the run that publishes it."""
        return self.run.run_id

    @property
    def differing(self) -> int:
        """Count the served rows that would change, be added or be removed."""
        return count_differing(self.counts.get("served", {}))

    @classmethod
    def from_json(cls, text: bytes, place: str) -> Self:
        """Parse the record of a draft.

        Raises:
            LakeError: It is no such record.
        """
        try:
            return json_text.parse_dataclass(cls, text)
        except ValueError as error:
            msg = f"Draft of a repair `{place}`: expected the fields of this release as JSON, got another text: {error}"
            hint = "\nHint: make a new draft with `--window`, or discard this one with `--undo --id`."
            raise LakeError(msg + hint, runbook="TableUnreadable") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingDrafts:
    """Unpublished drafts, by id."""

    readable: Mapping[str, RepairDraft]  # oldest first
    unreadable: Mapping[str, LakeError]  # error of the record

    @property
    def next_sequence(self) -> int:
        """Sequence of the next draft, after all readable ones."""
        return 1 + max((draft.sequence for draft in self.readable.values()), default=-1)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all drafts, readable ones first."""
        return (*self.readable, *self.unreadable)

    def get(self, repair_id: str) -> RepairDraft:
        """Return one of them.

        Raises:
            LakeError: Its record is not one of this release.
        """
        if repair_id in self.unreadable:
            raise self.unreadable[repair_id]
        return self.readable[repair_id]


def count_differing(kinds: Mapping[str, int]) -> int:
    """Count the rows that differ between both sides."""
    return sum(count for kind, count in kinds.items() if kind != "same")


def draft_folder(lake: PipelineLake, repair_id: str) -> str:
    """Return the folder of the files of a repair, which need not exist."""
    return f"{lake.version_uri()}/{FOLDER}/{repair_id}"


def write_draft_rows(uri: str, tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """Write tables as files that are named by their checksum; return their names.

    Raises:
        LakeError: The storage cannot be written.
    """
    try:
        return {
            name: data_files.write_data_file(uri, rows, checksums.new_stem(name)).path for name, rows in tables.items()
        }
    except OSError as error:
        raise _make_write_error(uri, error) from error


def read_draft_rows(uri: str, file: str) -> pa.Table:
    """Return the rows of a file of a repair.

    Raises:
        FileDamagedError: It is missing, or its content has changed.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 -- half a second that a command which only lists need not pay

    system, root = storage.resolve_uri(uri)
    checksums.check_stored_file(system, root, file, place=f"Repair `{uri}`")
    return pq.read_table(f"{root}/{file}", filesystem=system, partitioning=None)


def save_draft(lake: PipelineLake, draft: RepairDraft) -> None:
    """Write the record of a draft, which makes it valid.

    Raises:
        LakeError: The storage cannot be written.
    """
    uri = draft_folder(lake, draft.repair_id)
    system, root = storage.resolve_uri(uri)
    try:
        system.create_dir(root, recursive=True)
        with system.open_output_stream(f"{root}/{RECORD}.new") as stream:
            stream.write(json_text.encode_dataclass(draft).encode())
        system.move(f"{root}/{RECORD}.new", f"{root}/{RECORD}")
    except OSError as error:
        raise _make_write_error(uri, error) from error


def find_waiting(lake: PipelineLake, recorded_ids: Collection[str]) -> WaitingDrafts:
    """Return the drafts under the definition's result fingerprint that no recorded run has published.

    The record of a published one is no longer read: its run contains the same facts.
    """
    system, root = storage.resolve_uri(f"{lake.version_uri()}/{FOLDER}")
    readable, unreadable = list[RepairDraft](), dict[str, LakeError]()
    for info in _list_folder(system, root):
        if info.base_name not in recorded_ids:
            try:
                draft = _read_record(system, info.path)
            except LakeError as error:
                unreadable[info.base_name] = error
            else:
                readable += [] if draft is None else [draft]
    ordered = sorted(readable, key=lambda draft: (draft.sequence, draft.repair_id))
    return WaitingDrafts(readable={draft.repair_id: draft for draft in ordered}, unreadable=unreadable)


def _read_record(system: fs.FileSystem, place: str) -> RepairDraft | None:
    """Return the draft of a folder; None if it has no record.

    Raises:
        LakeError: Its record is not one of this release.
    """
    record = f"{place}/{RECORD}"
    if system.get_file_info(record).type is not fs.FileType.File:
        return None
    with system.open_input_stream(record) as stream:
        return RepairDraft.from_json(stream.read(), record)


def list_other_definitions(lake: PipelineLake) -> list[str]:
    """Return the ids of repairs that lie under another result fingerprint of the pipeline."""
    own_uri = lake.version_uri()
    system, root = storage.resolve_uri(f"{lake.settings.lake_uri}/{lake.name}")
    other_folders = (info.path for info in _list_folder(system, root) if not own_uri.endswith(f"/{info.base_name}"))
    return [info.base_name for path in other_folders for info in _list_folder(system, f"{path}/{FOLDER}")]


def discard(lake: PipelineLake, repair_id: str) -> None:
    """Remove the folder of an unpublished draft."""
    system, root = storage.resolve_uri(draft_folder(lake, repair_id))
    if system.get_file_info(root).type is fs.FileType.Directory:
        system.delete_dir(root)


def discard_expired(lake: PipelineLake, recorded_ids: Sequence[str], now: datetime) -> None:
    """Remove drafts that can no longer be published, including those of another release, and files of killed processes.

    Args:
        lake: Pipeline whose drafts are removed.
        recorded_ids: Ids of recorded runs, in their order: their folders stay.
        now: Drafts that expire by then are removed, except those that build on the newest run: a clock may be ahead.
    """
    system, root = storage.resolve_uri(f"{lake.version_uri()}/{FOLDER}")
    for info in _list_folder(system, root):
        if info.base_name not in recorded_ids and not _is_current(
            system, info.path, now, newest=next(reversed(recorded_ids), None)
        ):
            system.delete_dir(info.path)


def _is_current(system: fs.FileSystem, place: str, now: datetime, *, newest: str | None) -> bool:
    try:
        draft = _read_record(system, place)
    except LakeError:
        return False
    return draft is not None and (draft.newest_run == newest or datetime.fromisoformat(draft.expires) > now)


def to_files(run_output: RunOutput) -> dict[str, pa.Table]:
    """Return the tables that a draft stores of a run, by name."""
    return {"rows": run_output.rows, "ranges": run_output.ranges, "ledger": run_output.ledger}


def to_output(lake: PipelineLake, run: BatchRun, draft: RepairDraft, *, began: float) -> RunOutput:
    """Read the output of a draft, in the columns and types of the tables.

    Args:
        lake: Pipeline that the draft repairs.
        run: As it is to be recorded.
        draft: The draft with the files of the rows.
        began: Monotonic seconds at the beginning of the publication.

    Raises:
        FileDamagedError: A file of the draft is missing or was changed.
    """
    uri = draft_folder(lake, draft.repair_id)
    schemas = {"rows": batch_schema(lake.pipeline), "ranges": BATCH_INDEX, "ledger": batch_ledger_schema(lake.pipeline)}
    tables = {name: read_draft_rows(uri, draft.files[name]).cast(schema) for name, schema in schemas.items()}
    return RunOutput(
        run=run,
        replaced=draft.run.computed,
        began=began,
        rows=tables["rows"],
        ranges=tables["ranges"],
        ledger=tables["ledger"],
    )


def to_fields(draft: RepairDraft) -> dict[str, object]:
    """Return the fields that a script may rely on."""
    return {
        "id": draft.repair_id,
        "epoch": draft.run.epoch,
        "stage": draft.stage,
        "windows": [list(span) for span in draft.windows],
        "would_change": draft.differing,
        "counts": json.loads(json.dumps(draft.counts)),
        "served_from": draft.served_from,
        "created": draft.created,
        "expires": draft.expires,
    }


def _list_folder(system: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    if system.get_file_info(path).type is not fs.FileType.Directory:
        return []
    file_info = system.get_file_info(fs.FileSelector(path))
    return sorted((info for info in file_info if info.type is fs.FileType.Directory), key=lambda info: info.path)


def _make_write_error(uri: str, error: OSError) -> LakeError:
    msg = f"Repair `{uri}`: expected a place that can be written, got: {str(error).splitlines()[0]}."
    return LakeError(msg + "\nHint: nothing was published; check the free space.", runbook="DiskHeadroomLow")
