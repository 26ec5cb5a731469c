"""The newest row of a pipeline in each control table, noted outside the table: an older copy of it is known by that.

Rows that are gone from a table leave a hole in its numbers; a table that was put back as it was a day ago has none. So
each commit leaves an empty file beside the pipeline's tables whose name is its number, and takes the older ones away.
"""

import re
from contextlib import suppress

from pyarrow import fs

from cutover.engine import storage
from cutover.errors import LakeError
from cutover.events import log
from cutover.lake.paths import ControlTable, turns_uri
from cutover.settings import Settings

_TURN = re.compile(r"0|[1-9][0-9]{0,17}")
NONE = -1
"""What is noted before the first row."""


def note(settings: Settings, table: ControlTable, pipeline: str, turn: int) -> None:
    """Note the row that was committed in a turn; a note that cannot be written is a weaker witness, no failure."""
    system, folder = storage.place(turns_uri(settings, pipeline, table))
    try:
        if isinstance(system, fs.LocalFileSystem):  # a store has no folders
            system.create_dir(folder, recursive=True)
        system.open_output_stream(f"{folder}/{turn}").close()
        for older in _list_turns(system, folder):
            if older < turn:
                with suppress(FileNotFoundError):  # another writer took it away
                    system.delete_file(f"{folder}/{older}")
    except OSError as error:
        log.warning("turn_not_noted", pipeline=pipeline, table=table, turn=turn, error=str(error))


def read_newest(settings: Settings, table: ControlTable, pipeline: str) -> int:
    """Return the newest turn that is noted; read it before the table is opened, which then holds that row.

    Raises:
        LakeError: The notes cannot be read.
    """
    place = turns_uri(settings, pipeline, table)
    try:
        return max(_list_turns(*storage.place(place)), default=NONE)
    except OSError as error:
        msg = f"Notes `{place}`: expected a folder that can be read, got: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error


def list_noted(settings: Settings, table: ControlTable) -> set[str]:
    """Return the pipelines that have notes of a control table.

    Raises:
        LakeError: The lake cannot be listed.
    """
    try:
        system, lake = storage.place(settings.lake_uri)
        names = {info.base_name for info in system.get_file_info(fs.FileSelector(lake, allow_not_found=True))}
    except OSError as error:
        msg = f"Lake `{settings.lake_uri}`: expected a folder that can be listed, got: {str(error).splitlines()[0]}."
        raise LakeError(msg, runbook="TableUnreadable") from error
    return {name for name in names if read_newest(settings, table, name) > NONE}


def _list_turns(system: fs.FileSystem, folder: str) -> list[int]:
    found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    names = (info.base_name for info in found if info.type is fs.FileType.File)
    return [int(name) for name in names if _TURN.fullmatch(name)]
