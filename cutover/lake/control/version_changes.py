"""Differences between the definitions of two versions: why the current definition has no stream, or another one."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cutover.definition.compile.fingerprint import describe_version
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.journal_rows import VersionEvent
from cutover.pipeline_lake import PipelineLake

LONGEST_VALUE = 120
"""Characters of a value that a message shows."""


def describe_changes(lake: PipelineLake, version: Version | None) -> str:
    """Describe what changed in the definition since the previous version, each sentence after a blank.

    Args:
        lake: Pipeline under its current definition.
        version: The current one; None: there is none under this definition.

    Returns:
        Nothing if nothing changed.
    """
    if version is not None and version.fork is not None:
        origin = f"stream-{version.fork.version} after epoch {version.fork.epoch}"
        return f" Version stream-{version.number} is a fork of {origin}."
    events = [event for event in versions.read_version_events(lake.settings, lake.name) if event.registers]
    previous = _find_previous(events, version)
    if previous is None:
        return "" if version is not None else " No stream of this name has been started yet."
    recorded = json.loads(previous.definition or "{}")
    current = json.loads(json.dumps(describe_version(lake.pipeline)))
    changed_fields = [name for name in sorted({*recorded, *current}) if recorded.get(name) != current.get(name)]
    if not changed_fields:
        return ""
    text = "; ".join(
        f"`{name}` is {_format_value(current, name)}, was {_format_value(recorded, name)}" for name in changed_fields
    )
    return f" Since stream-{previous.stream_version} of {previous.result_fingerprint} was created: {text}."


def _find_previous(events: Sequence[VersionEvent], version: Version | None) -> VersionEvent | None:
    """Return the row before the registration of a version; without a version, the latest row."""
    if version is None:
        return events[-1] if events else None
    place = (version.result_fingerprint, version.number)
    indexes = [i for i, event in enumerate(events) if (event.result_fingerprint, event.stream_version) == place]
    return events[indexes[0] - 1] if indexes and indexes[0] else None


def _format_value(definition: Mapping[str, Any], name: str) -> str:
    text = json.dumps(definition.get(name))
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
