"""Why a version of the stream stands beside nothing: what changed in the definition since the one before, or a fork."""

import json
from collections.abc import Mapping
from typing import Any

from cutover.definition.compile.fingerprint import describe_version
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import control_tables, versions
from cutover.lake.control.versions import Version
from cutover.settings import Settings

MOST = 120
"""Characters of one value that a message shows."""


def describe_changes(settings: Settings, pipeline: Pipeline, version: Version | None) -> str:
    """Return sentences that say what is new, each behind a blank; nothing where nothing is.

    Args:
        settings: Where the lake lies.
        pipeline: The definition.
        version: The one in force; None: none is under this definition.
    """
    if version is not None and version.fork is not None:
        of = f"stream-{version.fork.version} behind epoch {version.fork.epoch}"
        return f" Version stream-{version.number} is a fork of {of}."
    rows = [row for row in control_tables.read(settings, "versions", pipeline.name) if versions.is_registration(row)]
    before = _before(rows, version)
    if before is None:
        return "" if version is not None else " No stream of this name has begun yet."
    was, now = json.loads(before["definition"]), json.loads(json.dumps(describe_version(pipeline)))
    changed = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    found = "; ".join(f"`{name}` is {_format_item(now, name)}, was {_format_item(was, name)}" for name in changed)
    return (
        f" Since stream-{before['stream_version']} of {before['result_fingerprint']} began: {found}." if found else ""
    )


def _before(rows: list[dict[str, Any]], version: Version | None) -> dict[str, Any] | None:
    """Return the row of the version that was registered before one; of none the newest."""
    if version is None:
        return rows[-1] if rows else None
    mine = (version.result_fingerprint, version.number)
    places = [i for i, row in enumerate(rows) if (row["result_fingerprint"], row["stream_version"]) == mine]
    return rows[places[0] - 1] if places and places[0] else None


def _format_item(definition: Mapping[str, Any], name: str) -> str:
    text = json.dumps(definition.get(name))
    return text if len(text) <= MOST else f"{text[:MOST]}..."
