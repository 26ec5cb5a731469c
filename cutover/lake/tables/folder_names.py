"""Which folders a table may lie in."""

import re

from cutover.engine import storage
from cutover.errors import LakeError

_ODD = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]\\]")


def refuse_name(uri: str) -> None:
    """Refuse a folder that delta-rs would look for under another name: it takes a path for an encoded address.

    Raises:
        LakeError: It holds a bracket, a backslash, or `%` with two digits.
    """
    found = None if storage.is_object_store(uri) else _ODD.search(uri)
    if found is not None:
        msg = f"Table `{uri}`: expected a folder without brackets, backslash and `%` with two digits, got `{found[0]}`."
        raise LakeError(msg + "\nHint: choose another name for the folder of the lake.")
