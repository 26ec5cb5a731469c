"""Definition by which a name is shown: that of its file, or the recorded one if the file does not describe it."""

from dataclasses import dataclass
from datetime import UTC

from cutover.definition.compile.fingerprint import describe_version
from cutover.definition.loading import catalogue
from cutover.definition.model.pipeline import Pipeline
from cutover.driver_state import read_driver_state
from cutover.errors import DefinitionError, LakeError
from cutover.lake.control import versions
from cutover.lake.recorded_definitions import RecordedDefinition, find_recorded
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedDefinition:
    """Definition by which a name is shown."""

    pipeline: Pipeline
    note: str | None = None  # why it is not the one in the file; None: it is the one in the file


def resolve_definition(settings: Settings, name: str, *, running: bool = False) -> ResolvedDefinition:
    """Resolve the definition by which a pipeline that runs or was computed is shown.

    It is that of the file, unless the file does not load or nothing was computed under it yet; then it is the recorded
    one.

    Args:
        settings: Settings of the installation; the version that they select must exist under the definition.
        name: Name of the pipeline.
        running: While a driver runs, return its definition, whatever the file contains.

    Raises:
        DefinitionError: The file does not load or does not exist, and no definition is recorded.
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
    recorded_items, current_items = describe_version(recorded_definition.pipeline), describe_version(current)
    changed_keys = ", ".join(
        f"`{key}`"
        for key in sorted({*recorded_items, *current_items})
        if recorded_items.get(key) != current_items.get(key)
    )
    reason = f"has changed since its driver started ({changed_keys})"
    return ResolvedDefinition(pipeline=recorded_definition.pipeline, note=_describe(recorded_definition, reason))


def _is_ahead(settings: Settings, current: Pipeline, pipeline: Pipeline, *, running: bool) -> bool:
    """Return whether the file differs from the running definition, or from all that was computed."""
    if describe_version(current) == describe_version(pipeline):
        return False
    if running and read_driver_state(settings, current.name).alive:
        return True
    try:
        lake = PipelineLake(settings, current)
        return versions.find_current_version(lake) is None and not delta.exists(lake.batch_uri())
    except DefinitionError:  # the version that the settings name is not under this definition
        return True
    except LakeError:  # the command itself reports a table that cannot be read
        return False


def _describe(recorded_definition: RecordedDefinition, reason: str) -> str:
    name, at = recorded_definition.pipeline.name, recorded_definition.at.astimezone(UTC)
    return (
        f"{name}: the definition {reason.removesuffix('.')}. Used instead: the one that its driver ran with since "
        f"{at:%Y-%m-%d %H:%M} UTC.\nHint: `cutover lint {name}` checks the file."
    )
