"""A mark: what one of the last records before an offset was. Needs no client: tables hold marks too."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple


class Mark(NamedTuple):
    """What one record was."""

    offset: int
    log_time: int  # milliseconds
    digest: str  # of key and value, null and empty told apart: 16 digits of their SHA-256


Marks = Mapping[int, tuple[Mark, ...]]
"""Partition -> marks by offset."""


def compute_digest(key: bytes | None, value: bytes | None) -> str:
    """First 16 hex digits of a SHA-256 over both, with their lengths; null and empty differ."""
    sha256 = hashlib.sha256()
    for part in (key, value):
        sha256.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return sha256.hexdigest()[:16]
