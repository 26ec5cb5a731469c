"""The definition by which a name is shown: that of its file, or the recorded one where the file cannot tell."""

from dataclasses import dataclass
from datetime import UTC

from cutover.definition.compile.fingerprint import describe_version
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import read_driver_state
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import versions
from cutover.lake.paths import batch_uri
from cutover.lake.recorded_definitions import RecordedDefinition, find_recorded
from cutover.lake.tables import delta
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedDefinition:
    """The definition by which a name is shown."""

    pipeline: Pipeline
    note: str | None = None  # why it is not the one in the file; None: it is


def resolve_definition(settings: Settings, name: str, *, running: bool = False) -> ResolvedDefinition:
    """Return the definition by which what runs or was computed under a name is shown.

    That of its file, unless that one does not load, or nothing was computed under it yet; then the recorded one.

    Args:
        settings: Of the installation; the version that they name has to exist under the definition.
        name: Of the pipeline.
        running: While a driver lives, whatever is in the file, return what that driver runs with.

    Raises:
        DefinitionError: The file does not load, or there is none, and none is recorded.
    """
    recorded_definition = find_recorded(settings, name)
    try:
        current = catalogue.get(settings, name)
    except DefinitionError as error:
        if recorded_definition is None:
            raise
        reason = f"does not load: {error.text.splitlines()[0]}"
        return ResolvedDefinition(pipeline=recorded_definition.pipeline, note=_describe(recorded_definition, reason))
    if recorded_definition is None or not _is_ahead(settings, current, recorded_definition.pipeline, running=running):
        return ResolvedDefinition(pipeline=current)
    before, now = describe_version(recorded_definition.pipeline), describe_version(current)
    changed = ", ".join(f"`{key}`" for key in sorted({*before, *now}) if before.get(key) != now.get(key))
    reason = f"has changed since its driver started ({changed})"
    return ResolvedDefinition(pipeline=recorded_definition.pipeline, note=_describe(recorded_definition, reason))


def _is_ahead(settings: Settings, current: Pipeline, pipeline: Pipeline, *, running: bool) -> bool:
    """Return whether the file describes something else than what runs, or than all that was computed."""
    if describe_version(current) == describe_version(pipeline):
        return False
    if running and read_driver_state(settings, current.name).alive:
        return True
    try:
        return versions.current(settings, current) is None and not delta.exists(batch_uri(settings, current))
    except DefinitionError:  # the version that the settings name is not under this definition
        return True
    except LakeError:  # of a table that cannot be read the command itself tells
        return False


def _describe(recorded_definition: RecordedDefinition, reason: str) -> str:
    name, at = recorded_definition.pipeline.name, recorded_definition.at.astimezone(UTC)
    return (
        f"{name}: the definition {reason}. Used instead: the one that its driver ran with since "
        f"{at:%Y-%m-%d %H:%M} UTC.\nHint: `cutover lint {name}` checks the file."
    )
