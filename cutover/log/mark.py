"""Marks: fingerprints of the last records before an offset. Needs no client, since tables store marks too."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple


class Mark(NamedTuple):
    """Fingerprint of one record."""

    offset: int
    log_time: int  # milliseconds
    digest: str  # of key and value: 16 hex digits of their SHA-256; null and empty differ


Marks = Mapping[int, tuple[Mark, ...]]
"""Partition -> marks by offset."""


def compute_digest(key: bytes | None, value: bytes | None) -> str:
    """Return the first 16 hex digits of a SHA-256 over both with their lengths; null and empty differ."""
    sha256 = hashlib.sha256()
    for part in (key, value):
        sha256.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return sha256.hexdigest()[:16]
