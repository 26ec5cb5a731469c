"""A version of a stream and the definition that it runs, as the subject of comparisons, replays and switches."""

from dataclasses import dataclass

from cutover.definition.model.pipeline import Pipeline
from cutover.lake.control import versions
from cutover.lake.control.versions import Version
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.integrity import table_weights
from cutover.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A version of a stream, and the definition that it runs."""

    pipeline: Pipeline
    version: Version

    @property
    def text(self) -> str:
        """Return how messages name it: `flights stream-0`."""
        return f"{self.pipeline.name} stream-{self.version.number}"

    @property
    def epoch_log(self) -> EpochLog:
        """Open its current epoch log."""
        return EpochLog(self.version.uri)


def find_stream(settings: Settings, pipeline: Pipeline, number: int | None = None) -> Stream:
    """Return the version of a pipeline that serves, or one by number, with its existing epoch log.

    Raises:
        DefinitionError: There is no such version.
        LakeError: It has no epoch log yet, or the epoch log was deleted.
    """
    version_settings = versions.select_stream_version(versions.looking_at_served(settings), number)
    version = table_weights.check_epoch_log(version_settings, pipeline, versions.current(version_settings, pipeline))
    return Stream(pipeline=pipeline, version=version)
