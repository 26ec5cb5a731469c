"""What was found out of the lateness of logs: one row for each look, the newest under a definition counts."""

from dataclasses import replace

from cutover.clock import Clock
from cutover.definition.compile.fingerprint import lateness_fingerprint
from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import kept_results
from cutover.reconcile.result.advice import Advice
from cutover.reconcile.result.timeliness import LogLateness
from cutover.settings import Settings


def record(settings: Settings, found: LogLateness, clock: Clock) -> None:
    """Append a look to the history."""
    kept_results.keep(settings, "lateness", found, clock, lateness_fingerprint=found.lateness_fingerprint)


def newest(settings: Settings, pipeline: Pipeline) -> LogLateness | None:
    """Return the newest look under the definition in force and its settings of lateness; None: there is none.

    Raises:
        LakeError: The history cannot be read.
    """
    lateness = lateness_fingerprint(pipeline)
    return kept_results.newest(settings, "lateness", pipeline, LogLateness, lateness_fingerprint=lateness)


def record_advice(settings: Settings, found: Advice, clock: Clock) -> None:
    """Append what was advised to the history."""
    kept_results.keep(settings, "advice", found, clock)


def find_advice(settings: Settings, pipeline: Pipeline) -> Advice | None:
    """Return the newest advice under the definition in force, whatever its lateness was; None: there is none.

    One without a proof takes that of an older one that predicted the same from the same epochs.

    Raises:
        LakeError: The history cannot be read.
    """
    mine = kept_results.list_results(settings, "advice", pipeline, Advice)
    if not mine:
        return None
    found = mine[-1]
    place = (found.version, found.epoch, found.records)
    known = set(found.settings)
    for one in reversed(mine):
        if one.proven and (one.version, one.epoch, one.records) == place and known <= set(one.settings):
            return replace(found, settings=one.settings, proven=one.proven, proven_at=one.proven_at)
    return found
