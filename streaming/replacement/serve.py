"""Switch to another version of a stream, after a comparison whose differences a person has agreed to."""

from dataclasses import dataclass

from cutover.clock import Clock
from cutover.definition.model.pipeline import Pipeline
from cutover.errors import DefinitionError
from cutover.lake.control import versions
from cutover.lake.control.signature import check_reason
from cutover.lake.control.versions import Version
from cutover.lake.serving import serving_table
from cutover.settings import Settings
from cutover.streaming.replacement.compare import StreamComparison, compare_versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """Differences to which a person agrees before a stream serves for the first time."""

    differences: int = 0  # (window, key) rows that differ from the one that serves, as the comparison counted them
    uncompared: bool = False  # serve without a comparison, for instance because no cut is common


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Result of a switch to another version."""

    version: Version
    comparison: StreamComparison | None  # None: not compared
    stale_pipelines: tuple[str, ...]  # names whose serving table could not be published yet


def serve_version(
    settings: Settings, pipeline: Pipeline, number: int, *, reason: str, agreed: Agreed, clock: Clock
) -> Served:
    """Make a version serve, in one commit; one that never served is compared first, the result is recorded in `reason`.

    A version that has served before serves again at once.

    Raises:
        DefinitionError: There is no such version, it serves already, or its differences were not agreed to.
        LakeError: The two have no cut in common, a table cannot be read, or another process was quicker.
    """
    check_reason(reason, of="Version")  # rejected here, before a comparison that takes minutes
    turn, is_new = versions.next_sequence(settings, pipeline), _never_served(settings, pipeline, number)
    comparison: StreamComparison | None = None
    if is_new and not agreed.uncompared:
        comparison = compare_versions(settings, pipeline, number)
        reject_others(comparison, agreed, f"cutover replay {pipeline.name} --compare {number}")
    elif agreed.differences:
        msg = f"Version {number} of `{pipeline.name}`: expected no `--differences` where nothing is compared"
        raise DefinitionError(msg + (", got it together with `--uncompared`." if is_new else ": it has served before."))
    comparison_text = f" ({describe_comparison(comparison)})" if is_new else ""
    served = versions.serve(
        settings, pipeline, number, why=reason, finding=comparison_text, clock=clock, expected_sequence=turn
    )
    return Served(
        version=served, comparison=comparison, stale_pipelines=serving_table.update_tables(settings, pipeline)
    )


def _never_served(settings: Settings, pipeline: Pipeline, number: int) -> bool:
    other_versions = [version for version in versions.list_versions(settings, pipeline) if version.number == number]
    return any(version.beside for version in other_versions)


def reject_others(comparison: StreamComparison, agreed: Agreed, command: str) -> None:
    """Check that a stream differs in as many rows as a person has agreed to.

    Args:
        comparison: The comparison with the serving stream.
        agreed: The differences agreed to.
        command: The command that shows some of them.

    Raises:
        DefinitionError: It differs otherwise, it has more or fewer records of a class, or it has no row at all.
    """
    if comparison.is_emptied:
        msg = f"{comparison.candidate}: expected rows in place of the {comparison.rows:,} of {comparison.serving}"
        msg += ", got none."
        hint = f"`{command}` shows what differs; `--uncompared` serves it without a comparison"
        raise DefinitionError(msg + f"\nHint: {hint}.")
    for kind, (count_before, count_after) in comparison.classes.items():
        msg = f"{comparison.candidate}: expected {count_before:,} {kind} records, as {comparison.serving} has"
        msg += f", got {count_after:,}."
        hint = "a change note names the classes that may differ (`classes`); `--uncompared` skips the comparison"
        raise DefinitionError(msg + f"\nHint: {hint}.")
    if comparison.differing == agreed.differences:
        return
    msg = f"{comparison.candidate}: expected {agreed.differences:,} rows that differ from {comparison.serving}, got "
    msg += f"{comparison.differing:,} of {comparison.rows:,}."
    raise DefinitionError(
        msg + f"\nHint: `{command}` shows some of them; `--differences {comparison.differing}` agrees to them."
    )


def describe_comparison(comparison: StreamComparison | None) -> str:
    """Return the summary of a comparison for the history; `not compared` without one."""
    return "not compared" if comparison is None else comparison.summary
