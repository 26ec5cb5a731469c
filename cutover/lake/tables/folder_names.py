"""Names of folders that a table can have."""

import re

from cutover.engine import storage
from cutover.errors import LakeError

_ODD = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]\\]")


def check_folder_name(uri: str) -> None:
    """Reject a folder that delta-rs would open under another name, because it decodes a path like a URI.

    Raises:
        LakeError: The name has a bracket, a backslash, or `%` with two digits.
    """
    match = None if storage.is_object_store(uri) else _ODD.search(uri)
    if match is not None:
        msg = f"Table `{uri}`: expected a folder without brackets, backslash and `%` with two digits, got `{match[0]}`."
        raise LakeError(msg + "\nHint: choose another name for the folder of the lake.")
