"""Parts of a report in addition to its finding, as frozen values: days, earlier runs, error rates, settlement, advice.

A window's age is the event time from its end to the latest one of the slowest partition. Late records complete the log,
but never the stream's answer, which is final when its window closes. Rates have exact 95 % confidence intervals.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import exp, lgamma, log, log1p
from typing import Literal

from cutover.reconcile.result.codec import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarDay:
    """Windows that start on one day (UTC); if there are many, in one month, or in one year."""

    day: str  # 2013-02-08, or 2013-02, or 2013
    windows: int  # compared
    different: int  # of these
    causes: Mapping[str, int]  # cause -> (window, key) rows; a row with two causes counts for both


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfTrend:
    """Comparison of the same definition in the history."""

    run_id: str
    at: str  # ISO
    epoch: int | None  # of its cut; None without a cut
    verdict: str
    within: bool  # the policy
    windows: int  # compared
    different: int  # windows
    rows: int  # (window, key) rows that differ
    unexplained: int  # of these
    late_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBehind:
    """Record of the log that did not count and contributes to a listed (window, key) row."""

    window_start: str
    key: Mapping[str, Scalar]
    cause: str
    partition: int
    offset: int
    event_time: str | None
    epoch: int  # that read it
    reason: str | None


JobSide = Literal["streaming", "batch"]
JobLevel = Literal["reproduced", "sealed by offsets", "bounded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCell:
    """Cell in which the table of a team's job is not what the definition says about the records that it has read."""

    window_start: str
    key: Mapping[str, Scalar]
    measure: str
    kind: str  # missing, extra or changed: of the row in the job's table
    job: Scalar
    expected: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """Table of a team's job, compared with what the definition says about the records that the table contains."""

    side: JobSide
    level: JobLevel  # reproduced: all rows are equal; sealed: the cut is exact, rows differ; bounded: some not judged
    batch: int | None  # of a streaming job: the newest one up to the cut
    version: int | None  # of its table, or its snapshot; None: a table without versions
    fingerprint: str  # of where the job writes which columns
    rows: int  # (window, key) rows compared
    different: int  # of these
    values: int  # cells of measures compared
    different_values: int  # of these
    divided: int = 0  # sessions with several rows in the table, which were compared as the one that they are parts of
    not_judged: int = 0  # (window, key) rows that are not among those compared: the position does not decide them
    written_later: int = 0  # of these: rows that the table shows to be written after the position
    missing: int = 0  # of `different`: rows that the table lacks
    is_attributed: bool = True  # no one else than the job can have made rows differ
    doubts: tuple[str, ...] = ()  # what else may have made rows differ, and cannot be excluded: sentences
    rules: str = ""  # in what the job differs from the definition by its own rules, in words
    by_rules: int = 0  # (window, key) rows that these rules make different from the definition's
    values_by_rules: int = 0  # cells of measures in them
    position: str | None = None  # of a batch job: the offsets up to which it has read, in words
    foreign_versions: tuple[str, ...] = ()  # of the table, written by others than the job
    cells: tuple[JobCell, ...] = ()  # capped


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersTables:
    """Tables of both paths as users see them: each up to its own cut, with all that makes them differ."""

    rows: int  # (window, key) rows compared: those of which the batch job's can be judged
    different: int  # of these
    causes: Mapping[str, int] = field(default_factory=dict)  # cause -> rows; a row with two causes counts for both


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLife:
    """Lifetime of a listed (window, key) row without a cause."""

    window_start: str
    key: Mapping[str, Scalar]
    state: str  # pending, open or accepted
    rule: str | None  # name of the rule that accepts it
    first_seen: str  # ISO
    first_run: str  # id of the first comparison that found it
    runs: int  # comparisons that found it, including this one
    returned: int  # number of times it reappeared after it was resolved or closed


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseMeasure:
    """Measure whose replays over the same records differ; the largest figures of several replays."""

    column: str
    paths: tuple[str, ...]  # batch: differs with other tasks; stream: differs with other epochs
    rows: int  # (window, key) rows in one replay
    half: float | None  # median of the absolute differences; None if the values are not numbers
    p99: float | None
    largest: float | None
    relative: float | None  # the largest relative difference


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLevel:
    """Latest measurement of noise under the definition."""

    at: str  # ISO
    sentence: str
    rows: int  # (window, key) rows compared
    measures: tuple[NoiseMeasure, ...]  # empty if all replays agree


CONFIDENCE = 0.95
_STEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Number of hits and tries, with both ends of the interval of Clopper and Pearson (1934), 95 %."""

    hits: int
    of: int
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRates:
    """Rates for one kind of defect: of (window, key) rows, or of tables if a defect damages an entire table."""

    detection_rate: Rate  # of planted defects
    false_alarm_rate: Rate  # of clean windows, in comparisons in which the kind was planted
    right_cause_rate: Rate  # of defects found row by row
    refused: int = 0  # found by a NOT_COMPARABLE that names the defect: counted as found, without a cause per row
    not_compared: int = 0  # other changed rows, in windows that are not compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRates:
    """Rates of the latest self-test of the reconciler on this pipeline."""

    at: str  # ISO
    seed: int
    passed: bool
    detection_rate: Rate  # of planted defects
    false_alarm_rate: Rate  # of windows without a planted defect
    right_cause_rate: Rate  # of defects found row by row, and of differences that existed before
    by_kind: Mapping[str, KindRates] = field(default_factory=dict)
    refused: int = 0  # rows found by a NOT_COMPARABLE, not in `right_cause_rate`
    not_compared: int = 0  # other changed rows, in windows that are not compared; in no rate
    drawn_in: int = 0  # rows that differed before and are compared together with a planted one; in no rate


def rate(hits: int, of: int) -> Rate:
    """Compute a rate with its bounds; without tries, the interval is [0, 1].

    Args:
        hits: Number of hits.
        of: Number of tries.
    """
    lower = 0.0 if hits == 0 else _lower_end(hits, of)
    upper = 1.0 if hits == of else 1 - _lower_end(of - hits, of)
    return Rate(hits=hits, of=of, lower=lower, upper=upper)


def _lower_end(hits: int, of: int) -> float:
    """Find the share at which this number of hits or more has the probability of one tail, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _chance_of_more(hits, of, middle) < (1 - CONFIDENCE) / 2:
            low = middle
        else:
            high = middle
    return low


def _chance_of_more(hits: int, of: int, share: float) -> float:
    """Compute the probability of `hits` or more in `of` tries, each with probability `share` (above 0, below 1).

    The sum is over the tail beyond the mean, whose terms decrease; the other tail is 1 minus it.
    """
    if hits > of * share:
        return _sum_tail(hits, of, share)
    return 1 - _sum_tail(of - hits + 1, of, 1 - share)


def _sum_tail(hits: int, of: int, share: float) -> float:
    """Sum the probabilities of `hits` and more, beyond the mean, until the terms no longer change the sum."""
    number, term, total = hits, _chance(hits, of, share), 0.0
    while total + term > total:
        total += term
        term *= (of - number) / (number + 1) * share / (1 - share)
        number += 1
    return total


def _chance(number: int, of: int, share: float) -> float:
    ways = lgamma(of + 1) - lgamma(number + 1) - lgamma(of - number + 1)
    return exp(ways + number * log(share) + (of - number) * log1p(-share))


def list_uncounted(error_rates: ErrorRates) -> tuple[tuple[int, str], ...]:
    """Return the numbers of rows that are not in all rates, each with the reason."""
    return (
        (
            error_rates.refused,
            "rows found by a refusal to compare that names their defect: found, but not named row by row",
        ),
        (
            error_rates.not_compared,
            "other changed rows: their windows are not compared, or they differed before",
        ),
        (error_rates.drawn_in, "rows that differed before and are judged together with planted ones"),
    )


FEW = 10
"""Minimum number of windows for a conclusion from their share."""

NEARLY_ALL = 0.99
"""Share of windows that must be right for a conclusion about windows of an age."""

MISSING_AT_MOST = 1e-3
"""Share of its records that a window may miss and still count as complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementPoint:
    """Shares of records that windows miss at one age."""

    minutes: float  # from the window's end to the slowest partition's newest event time
    within: Rate  # windows that miss at most one record in a thousand, of those that old, with 95 % bounds
    p50: float  # share of a window's records that is missing
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementPoint:
    """Number of (window, key) rows in which the stream's answer at one age differs from batch's final rows."""

    minutes: float
    windows: int  # whose answer at that age is known
    rows: int  # of these windows
    different: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Curves by age, from the records read up to the cut."""

    closing_minutes: float  # age at which windows close: the stream's answer is final from then on
    windows: int  # compared
    other_causes: int  # windows that differ for a cause other than late records: wrong at every age
    log: tuple[
        SettlementPoint, ...
    ]  # records that had been read, including late ones; empty if no window is old enough
    stream: tuple[SettlementPoint, ...]  # records that count in the stream's answer; the last point is the closing
    agreement: tuple[AgreementPoint, ...]  # as `stream`, in rows
    is_replay: bool | None = False  # the epochs read the log faster than it was written; None: unknown
    read_speed: float | None = None  # log time per second of the epochs' processing time; None if unknown

    @property
    def final(self) -> SettlementPoint:
        """Return the stream's point at closing, which holds at every later age."""
        return self.stream[-1]

    @property
    def trusted(self) -> SettlementPoint | None:
        """Find the first age from which on nearly all of the stream's answers are right.

        For a replay, whose epochs read hours at once, no age before closing is concluded; none at all if it is unknown
        whether the log was replayed.
        """
        if self.is_replay is None:
            return None
        return find_first_settled(self.stream[-1:] if self.is_replay else self.stream)

    @property
    def complete(self) -> SettlementPoint | None:
        """Find the first age from which on nearly all windows have their records in the log, as for `trusted`."""
        return None if self.is_replay is None else find_first_settled(self.log)


def find_first_settled(points: tuple[SettlementPoint, ...]) -> SettlementPoint | None:
    """Find the first point from which on nearly all windows are within; points with few windows are ignored."""
    first_settled = None
    for point in reversed([point for point in points if point.within.of >= FEW]):
        if point.within.hits < NEARLY_ALL * point.within.of:
            break
        first_settled = point
    return first_settled


@dataclass(frozen=True, slots=True, kw_only=True)
class LateOutcome:
    """Outcome of a setting under one way of reading the log."""

    exact: int  # windows without a late record
    on_time: int  # windows whose on-time answer had all records
    late_rows: int  # (window, key) rows in which batch and stream would differ
    late: int  # (record, window) pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Predicted outcome of one setting on this log, with the epochs that read it."""

    out_of_orderness: int  # microseconds
    allowed: int
    windows: int
    exact: int  # windows without a late record
    on_time: int  # windows whose on-time answer had all records
    late_rows: int  # (window, key) rows in which batch and stream would differ
    late: int  # (record, window) pairs
    late_share: float  # of all pairs
    held: int  # maximum number of (window, key) rows in state at the same time
    delay_p50: int | None  # microseconds of event time from a window's end to its on-time answer; None without one
    delay_p99: int | None
    real: LateOutcome | None = (
        None  # if each record were read when it was appended; None if log timestamps do not show that
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSetting:
    """Recommended setting, or one that the user requested."""

    name: str  # fastest, balanced, exact or tried
    prediction: Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOutcome:
    """Outcome of a run with one setting; its fields are named as those of the prediction."""

    windows: int
    exact: int
    on_time: int  # windows without a record after the watermark had passed their end
    late_rows: int
    late: int
    held: int
    delay_p50: int | None
    delay_p99: int | None


def select_outcome(prediction: Prediction) -> MeasuredOutcome:
    """Return the part of a prediction that a run measures as well."""
    return MeasuredOutcome(**{figure.name: getattr(prediction, figure.name) for figure in fields(MeasuredOutcome)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenSetting:
    """Setting with its prediction and the outcome of a test run."""

    setting: NamedSetting
    found: MeasuredOutcome
    is_held_bound: bool  # the predicted `held` is an upper bound, as for sessions

    @property
    def wrong(self) -> tuple[str, ...]:
        """Return the names of the figures that differ from the prediction."""
        outcome = select_outcome(self.setting.prediction)
        names = (figure.name for figure in fields(MeasuredOutcome))
        wrong = [name for name in names if getattr(outcome, name) != getattr(self.found, name)]
        if self.is_held_bound and self.found.held <= outcome.held:
            wrong = [name for name in wrong if name != "held"]
        return tuple(wrong)

    @property
    def holds(self) -> bool:
        """Return whether the outcome confirms the prediction."""
        return not self.wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """Partition or key with more than its share of the late records."""

    what: str  # `partition=3`, `origin=EWR, carrier=UA`
    late: int
    late_share: float  # of all late records
    share: float  # of all records


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Result of one `cutover advise`: predictions, and outcomes if it was run with a proof."""

    pipeline: str
    at: str  # ISO
    result_fingerprint: str
    version: int  # n of stream-<n>, whose epochs were analysed
    epoch: int  # the latest of them
    epochs: int  # that have read records
    records: int  # offsets read
    in_force: Prediction
    settings: tuple[NamedSetting, ...]  # the three recommended ones, then those that the user requested
    proven: tuple[ProvenSetting, ...]  # of the same settings; empty without a proof
    proven_at: str | None  # ISO; None without a proof
    partitions: tuple[Culprit, ...]  # those with most late records
    keys: tuple[Culprit, ...]
    partitions_over: int | None = None  # number with more than twice their share, listed or not; None in older advice
    keys_over: int | None = None
    is_replay: bool | None = False  # the epochs read the log faster than it was written; None: unknown
    read_speed: float | None = None  # log time per second of the epochs' processing time; None if unknown
    log_pace: float | None = None  # event time per second of log time; None if unknown

    @property
    def is_by_real_speed(self) -> bool:
        """Return whether the recommended settings were chosen by the records that are late at real speed."""
        return self.is_replay is not False and self.in_force.real is not None

    @property
    def is_conclusive(self) -> bool:
        """Return whether the recommended settings hold for records that are read as they arrive."""
        return self.is_replay is False or self.in_force.real is not None
