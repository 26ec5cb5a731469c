"""Marks of the latest sequence of a pipeline in each control table, kept outside the table to detect an older copy.

Rows that were deleted from a table leave a gap in its sequences; a table that was restored to yesterday's state has
none. So each commit leaves an empty file next to the pipeline's tables, named by its sequence, and deletes older ones.
"""

import re
from contextlib import suppress

from pyarrow import fs

from cutover.engine import storage
from cutover.errors import LakeError
from cutover.events import log
from cutover.pipeline_lake import sequence_marks_uri
from cutover.settings import Settings

_SEQUENCE = re.compile(r"0|[1-9][0-9]{0,17}")
NONE = -1
"""Latest sequence before the first row."""


def write_sequence_mark(settings: Settings, table: str, pipeline: str, sequence: int) -> None:
    """Mark a committed sequence; a mark that cannot be written weakens the detection and is no failure."""
    system, folder = storage.resolve_uri(sequence_marks_uri(settings, pipeline, table))
    try:
        if isinstance(system, fs.LocalFileSystem):  # an object store has no folders
            system.create_dir(folder, recursive=True)
        system.open_output_stream(f"{folder}/{sequence}").close()
        for older in _list_sequences(system, folder):
            if older < sequence:
                with suppress(FileNotFoundError):  # another writer deleted it
                    system.delete_file(f"{folder}/{older}")
    except OSError as error:
        log.warning("sequence_not_marked", pipeline=pipeline, table=table, sequence=sequence, error=str(error))


def read_latest(settings: Settings, table: str, pipeline: str) -> int:
    """Read the latest marked sequence; call it before the table is opened, which then has that row.

    Raises:
        LakeError: The marks cannot be read.
    """
    place = sequence_marks_uri(settings, pipeline, table)
    try:
        return max(_list_sequences(*storage.resolve_uri(place)), default=NONE)
    except OSError as error:
        msg = f"Sequence marks `{place}`: expected a readable folder, got: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error


def list_marked_pipelines(settings: Settings, table: str) -> set[str]:
    """List the pipelines with a marked sequence in a control table.

    Raises:
        LakeError: The lake cannot be listed.
    """
    try:
        system, lake = storage.resolve_uri(settings.lake_uri)
        names = {info.base_name for info in system.get_file_info(fs.FileSelector(lake, allow_not_found=True))}
    except OSError as error:
        msg = f"Lake `{settings.lake_uri}`: expected a folder that can be listed, got: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    return {name for name in names if read_latest(settings, table, name) > NONE}


def _list_sequences(system: fs.FileSystem, folder: str) -> list[int]:
    infos = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    names = (info.base_name for info in infos if info.type is fs.FileType.File)
    return [int(name) for name in names if _SEQUENCE.fullmatch(name)]
