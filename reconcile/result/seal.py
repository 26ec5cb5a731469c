"""Recorded preconditions of a comparison: the log, the definitions and the tables that were read."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLog:
    """Log that both sides read, with the cut."""

    topic: str
    topic_id: str
    cluster_id: str
    cut: Mapping[str, int]  # partition -> next offset, exclusive


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprints:
    """Result fingerprints that were in force when each side ran."""

    definition: str | None = None  # of the pipeline as it is defined now
    streaming: tuple[str, ...] = ()  # all that its epochs recorded; one if the seal holds
    batch: str | None = None
    lateness: str | None = None  # lateness fingerprint of the stream version
    batch_definition: str | None = None  # "same", or the hash of the team's SQL


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionVersions:
    """Versions of a dimension with which the records up to the cut were joined."""

    lookup: str
    streaming: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()  # in all of its runs so far
    gone: tuple[int, ...] = ()  # the stream's versions that can no longer be read, which batch replaced by another


AHEAD_OF_CUT = "batch_job_ahead"
"""Code of a batch job that has read further than the batch run that it is compared with; the next run reads it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealBreach:
    """Reason why the two sides cannot be compared."""

    code: str  # log_identity, log_changed, cut, fingerprint, isolation, history, unreadable, folded, uncovered, ...
    message: str  # thing, place, expected, got
    runbook: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Preconditions of a comparison, with those that do not hold."""

    epoch: int | None = None
    logs: tuple[ComparedLog, ...] = ()
    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    stream_version: int | None = None  # n of stream-<n>
    isolation: str | None = None
    watermark: str | None = None  # ISO, at the cut
    epochs: int = 0  # epochs up to the cut
    holds: bool = True
    breaches: tuple[SealBreach, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesRead:
    """Delta versions and batch run that a comparison read; rewriting the same rows changes them and no finding."""

    stream: int | None = None
    batch: int | None = None
    batch_ledger: int | None = None
    batch_run: str | None = None  # run id
