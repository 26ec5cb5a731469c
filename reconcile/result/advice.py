"""Advice of `cutover advise`: predictions for settings of lateness, and outcomes of test runs with these settings."""

from dataclasses import dataclass, fields


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
