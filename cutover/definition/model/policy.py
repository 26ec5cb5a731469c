"""Policy of a pipeline: what a verdict tolerates, what the gate requires before a move, and the stages between moves.

By an acceptance rule, a named person accepts certain unexplained differences, for a reason and until a date.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class Stage(StrEnum):
    """Stage of a pipeline on its way from two paths to one."""

    LAMBDA = "LAMBDA"  # batch is served up to its horizon, the stream after it
    SHADOW = "SHADOW"  # the stream is served, batch audits
    KAPPA = "KAPPA"  # the stream is served, batch does not run


MAX_ACCEPTED_ROWS = 500
"""Largest number of (window, key) rows that one rule may accept; a comparison does not list more than that."""

LONGEST_RANGE = timedelta(days=366)
"""Longest range of windows for which a rule needs neither keys nor `all`."""


def _to_utc(value: Any) -> Any:
    """Convert a TOML date to its midnight in UTC, and a time without a zone to one in UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else value


Moment = Annotated[datetime, BeforeValidator(_to_utc)]
Text = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
Volume = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AcceptanceRule(BaseModel):
    """Rule that accepts a difference if its window, key and kind match.

    An omitted condition matches everything; an empty list, which would match nothing, is rejected. A rule that matches
    more than `max_rows` or `max_volume` accepts nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    reason: Text
    owner: Text
    expires: Moment  # exclusive
    max_rows: int = Field(ge=1, le=MAX_ACCEPTED_ROWS)  # (window, key)
    max_volume: dict[str, Volume] = Field(default_factory=dict, min_length=1)  # measure -> sum of |streaming - batch|
    windows_from: Moment | None = None  # window starts, inclusive
    windows_to: Moment | None = None  # exclusive
    keys: list[Text] = Field(default_factory=list, min_length=1)  # each as `cutover explain` takes it
    kinds: list[Literal["missing", "extra", "changed", "masked"]] = Field(default_factory=list, min_length=1)
    measures: list[Text] = Field(default_factory=list, min_length=1)  # a row matches if it differs in no other measure
    all: bool = False  # if true, neither a range nor keys are required

    @model_validator(mode="after")
    def check_narrow(self) -> "AcceptanceRule":
        """Reject a range that ends before it starts, and a rule for every window of every key.

        Raises:
            ValueError: The rule is invalid; pydantic reports it.
        """
        start, end = self.windows_from, self.windows_to
        if start is not None and end is not None and start >= end:
            msg = "`windows_from`: expected a time before `windows_to`"
            raise ValueError(msg)
        is_narrow = bool(self.keys) or (start and end and end - start <= LONGEST_RANGE)
        if not is_narrow and not self.all:
            msg = f"expected `keys`, or both ends of a range of at most {LONGEST_RANGE.days} days, or `all = true`"
            raise ValueError(msg)
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the whole rule: a changed rule is a different rule."""
        return sha256(self.model_dump_json().encode()).hexdigest()

    def is_expired(self, now: datetime) -> bool:
        """Return whether the rule has expired and accepts nothing."""
        return now >= self.expires

    def has_window(self, start: datetime) -> bool:
        """Return whether the rule's range contains a window that starts at a time."""
        return (self.windows_from is None or self.windows_from <= start) and (
            self.windows_to is None or start < self.windows_to
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRules:
    """Acceptance rules of a pipeline by name, sorted, and the problems of files that are invalid."""

    rules: Mapping[str, AcceptanceRule] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)  # name -> one line


HazardKind = Literal["restart", "late_burst", "peak", "schema_change", "partitions", "replay"]
"""Events that a stream can be required to have survived before a move; `partitions`: more of them, or a new leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Faults that the daily sample of windows in KAPPA must find, and how surely; decides the size of the sample."""

    faults: Literal["cells", "windows"] = "cells"  # what is wrong: single (window, key) rows, or all rows of a window
    share: float = 0.01  # of cells or windows that are wrong, in the windows that become final from some day on
    within_days: int = 7  # days of event time until one is found
    power: float = 0.95  # probability of finding one


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits on differences, and the evidence that a move requires."""

    max_late_share: float = 1e-3  # late records / accepted and late records
    max_malformed_share: float = 1e-2  # malformed records / all records; only alerts
    max_future_share: float = 1e-3  # future records / all records; only alerts
    max_duplicate_share: float = 1e-2  # duplicates / all records; only alerts
    max_filtered_share: float = 0.99  # records that `where` filters / all records; only alerts
    max_unexplained: int = 0  # (window, key) rows
    max_dimension_rows: int = 0  # (window, key) rows that differ because the paths joined other versions of a dimension
    settles_after: str = "0 minutes"  # a difference is pending while its window began less than this before the cut
    max_divergence: float | None = None  # probability that a block of windows diverges, rejected at 95 %
    min_judged_share: float = 1.0  # rows of a job's table that are judged / those and the ones that cannot be judged
    runs: int = 24  # consecutive sealed runs within policy, each at a later cut
    fresh_within: str = "1 day"  # maximum age of the latest of these runs
    hazards: tuple[HazardKind, ...] = ()  # that the stream must have survived, and agreed with batch afterwards
    hazards_within: str = "90 days"  # maximum age of a hazard
    detected_within: str = "1 day"  # from a wrong result to its alert; log retention must cover it
    approved_within: str = "2 days"  # from the alert to a person's decision; log retention must cover it, too
    job_reads_within: str | None = None  # time in which a followed job reads new records; None: by its earlier batches
    keep_unserved: str = "30 days"  # how long tables are retained that no one is served from and no one writes
    audit: Audit | None = field(default_factory=Audit)  # sample of windows in KAPPA; None: no sample
