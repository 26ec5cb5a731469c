"""Definition that a pipeline's driver last ran with, so that running and computed pipelines stay visible by name.

A definition is a file that people edit. If the file no longer loads, was deleted, or describes something else now,
running and computed pipelines are shown by the definition that was recorded when the driver started. Recorded
definitions are never computed. Batch runs follow a stream, so every result has a definition that a driver ran with.

A definition is recorded as plain data and decoded without its file. Each encoded object has the name of its class,
since some classes have the same fields (`Sum`, `Max`). Only classes that definitions consist of are ever constructed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from pyarrow import fs

from cutover import definition, files
from cutover.clock import Clock
from cutover.definition.loading.catalogue import Catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.definition.model.topic import IDENTIFIER
from cutover.definition.model.triggers import Sequence
from cutover.definition.windows.kinds import SlidingWindows
from cutover.driver_state import list_running_drivers, may_be_running
from cutover.engine import storage
from cutover.errors import DefinitionError
from cutover.events import log
from cutover.pipeline_lake import PipelineLake, definition_uri
from cutover.settings import Settings

_CLASS, _ITEMS, _LIST = "class", "items", "list"
_EXPORTED = (getattr(definition, name) for name in definition.__all__)
_KINDS = {kind.__name__: kind for kind in (*_EXPORTED, SlidingWindows) if isinstance(kind, type)}
"""Classes by name; `Fixed` and `Sliding` are functions that return `SlidingWindows`."""


def encode_definition(pipeline: Pipeline) -> dict[str, Any]:
    """Encode a definition as values that JSON can represent.

    Raises:
        DefinitionError: An argument of an expectation has a type that JSON cannot represent.
    """
    encoded: dict[str, Any] = _encode(pipeline)
    return encoded


def decode_definition(raw: object) -> Pipeline:
    """Decode a definition that `encode_definition` encoded.

    Raises:
        DefinitionError: The value is not a definition, or a release with other fields wrote it.
    """
    try:
        decoded = _decode(raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        actual = f"{type(error).__name__}: {error}"
        msg = f"Recorded definition: expected the classes and fields of this release, got {actual}."
        raise DefinitionError(msg) from error
    if not isinstance(decoded, Pipeline):
        msg = f"Recorded definition: expected a `Pipeline`, got {type(decoded).__name__}."
        raise DefinitionError(msg)
    return decoded


def _encode(value: object) -> Any:
    encoded: Any
    match value:
        case Enum():
            encoded = {_CLASS: type(value).__name__, _ITEMS: value.value}
        case _ if is_dataclass(value) and type(value) is _KINDS.get(type(value).__name__):
            items = {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
            encoded = {_CLASS: type(value).__name__, _ITEMS: items}
        case Mapping():
            encoded = {_ITEMS: [[_encode(name), _encode(item)] for name, item in value.items()]}
        case list():
            encoded = {_LIST: [_encode(item) for item in value]}
        case tuple():
            encoded = [_encode(item) for item in value]
        case Path():
            encoded = str(value)
        case str() | int() | float() | bool() | None:
            encoded = value
        case _:
            msg = f"Recorded definition: expected texts, numbers and collections of them, got {type(value).__name__}."
            raise DefinitionError(msg)
    return encoded


def _decode(raw: Any) -> Any:
    if isinstance(raw, list):
        return tuple(map(_decode, raw))
    if not isinstance(raw, dict):
        return raw
    if _LIST in raw:
        return list(map(_decode, raw[_LIST]))
    if _CLASS in raw:
        return _construct(_KINDS[raw[_CLASS]], raw[_ITEMS])
    return {_decode(name): _decode(item) for name, item in raw[_ITEMS]}


def _construct(kind: type, items: Any) -> Any:
    if issubclass(kind, Enum):
        return kind(items)
    if kind is Sequence:
        return Sequence(*_decode(items["parts"]))
    arguments = {field: _decode(item) for field, item in items.items()}
    if kind is Pipeline and arguments["file"] is not None:
        arguments["file"] = Path(arguments["file"])
    return kind(**arguments)


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
