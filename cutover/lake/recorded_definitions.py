"""Definition that a pipeline's driver last ran with, so that running and computed pipelines stay visible by name.

A definition is a file that people edit. If the file no longer loads, was deleted, or describes something else now,
running and computed pipelines are shown by the definition that was recorded when the driver started. Recorded
definitions are never computed. Batch runs follow a stream, so every result has a definition that a driver ran with.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyarrow import fs

from cutover import files
from cutover.clock import Clock
from cutover.definition.loading.catalogue import Catalogue
from cutover.definition.loading.encoding import decode_definition, encode_definition
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import IDENTIFIER
from cutover.driver_state import list_running_drivers, may_be_running
from cutover.engine import storage
from cutover.errors import DefinitionError
from cutover.events import log
from cutover.lake.paths import definition_uri
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDefinition:
    """The definition that a driver last ran with."""

    pipeline: Pipeline
    at: datetime  # when that driver started


def record_definition(lake: PipelineLake, clock: Clock) -> None:
    """Record the definition that a driver runs with; a failure is only logged."""
    uri = definition_uri(lake.settings, lake.name)
    try:
        text = json.dumps({"at": clock.now().isoformat(), "definition": encode_definition(lake.pipeline)}, indent=1)
        system, file = storage.resolve_uri(uri)
        if isinstance(system, fs.LocalFileSystem):
            files.write_atomically(Path(file), f"{text}\n", mode=0o644)
        else:
            with system.open_output_stream(file) as stream:
                stream.write(text.encode())
    except (OSError, DefinitionError) as error:
        log.warning("definition_not_recorded", pipeline=lake.name, error=str(error))


def find_recorded(settings: Settings, name: str) -> RecordedDefinition | None:
    """Find the definition that a driver last ran with; None if none ran, or another release recorded it."""
    if IDENTIFIER.match(name) is None:
        return None
    system, file = storage.resolve_uri(definition_uri(settings, name))
    try:
        with system.open_input_stream(file) as source:
            raw = json.loads(source.read())
        return RecordedDefinition(pipeline=decode_definition(raw["definition"]), at=datetime.fromisoformat(raw["at"]))
    except (OSError, ValueError, KeyError, TypeError, DefinitionError):
        return None


def list_recorded_definitions(settings: Settings) -> dict[str, RecordedDefinition]:
    """List, by name, the definition that each pipeline of the lake last ran with."""
    system, lake = storage.resolve_uri(settings.lake_uri)
    try:
        file_info = system.get_file_info(fs.FileSelector(lake, allow_not_found=True))
    except OSError:
        return {}
    names = sorted(info.base_name for info in file_info if info.type is fs.FileType.Directory)
    definitions = ((name, find_recorded(settings, name)) for name in names)
    return {name: definition for name, definition in definitions if definition is not None}


def list_shown(settings: Settings, current: Catalogue) -> dict[str, Pipeline]:
    """List, by name, the recorded definitions that stay visible although the catalogue has none of their name.

    These are definitions whose file has a problem or whose driver is running, not those that were removed on purpose.
    """
    missing = set(list_running_drivers(settings)) - set(current.pipelines)
    if not missing and not current.problems:
        return {}  # the lake is read only where something is missing
    return {
        name: definition.pipeline
        for name, definition in list_recorded_definitions(settings).items()
        if name not in current.pipelines
        and (definition.pipeline.file in current.problems_by_file or may_be_running(settings, name))
    }
