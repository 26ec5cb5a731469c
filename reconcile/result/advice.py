"""What `cutover advise` says of settings of lateness, and what runs of the streaming path under them have come to."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LateOutcome:
    """What a setting comes to under one way of reading the log."""

    exact: int  # windows without a late record
    on_time: int  # windows whose on-time answer had all records
    late_rows: int  # (window, key) rows that batch and stream would differ in
    late: int  # (record, window) pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What one setting would have come to on this log, in the epochs that read it."""

    out_of_orderness: int  # microseconds
    allowed: int
    windows: int
    exact: int  # windows without a late record
    on_time: int  # windows whose on-time answer had all records
    late_rows: int  # (window, key) rows that batch and stream would differ in
    late: int  # (record, window) pairs
    late_share: float  # of all of them
    held: int  # (window, key) rows that are held at once, at most
    delay_p50: int | None  # microseconds of event time from a window's end to its on-time answer; None: none came
    delay_p99: int | None
    real: LateOutcome | None = None  # had each record been read when it was appended; None: log timestamps do not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSetting:
    """A setting worth choosing, or one that somebody asked for."""

    name: str  # fastest, balanced, exact or tried
    prediction: Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOutcome:
    """What a run under one setting has come to: figures of the same names as those predicted."""

    windows: int
    exact: int
    on_time: int  # windows to which no record came once the watermark had passed their end
    late_rows: int
    late: int
    held: int
    delay_p50: int | None
    delay_p99: int | None


def select_outcome(prediction: Prediction) -> FoundOutcome:
    """Return the figures of a prediction that a run has, too."""
    return FoundOutcome(**{one.name: getattr(prediction, one.name) for one in fields(FoundOutcome)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenSetting:
    """A setting, what was predicted of it, and what was found."""

    setting: NamedSetting
    found: FoundOutcome
    is_held_bound: bool  # the predicted `held` is the most that it can be: of sessions

    @property
    def wrong(self) -> tuple[str, ...]:
        """Return the names of the figures that were not found as they were predicted."""
        outcome = select_outcome(self.setting.prediction)
        names = (one.name for one in fields(FoundOutcome))
        wrong = [name for name in names if getattr(outcome, name) != getattr(self.found, name)]
        if self.is_held_bound and self.found.held <= outcome.held:
            wrong = [name for name in wrong if name != "held"]
        return tuple(wrong)

    @property
    def holds(self) -> bool:
        """Return whether all that was predicted was found."""
        return not self.wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A partition or a key with more than its share of the late records."""

    what: str  # `partition=3`, `origin=EWR, carrier=UA`
    late: int
    late_share: float  # of all late records
    share: float  # of all records


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One look of `cutover advise`: predictions, and what was found where it was asked to prove them."""

    pipeline: str
    at: str  # ISO
    result_fingerprint: str
    version: int  # n of stream-<n>, whose epochs were looked at
    epoch: int  # the newest of them
    epochs: int  # that have read records
    records: int  # offsets read
    in_force: Prediction
    settings: tuple[NamedSetting, ...]  # the three that are advised, then those that somebody asked for
    proven: tuple[ProvenSetting, ...]  # of the same settings; empty: nobody asked for a proof
    proven_at: str | None  # ISO; None: nobody did
    partitions: tuple[Culprit, ...]  # the first ones
    keys: tuple[Culprit, ...]
    partitions_over: int | None = None  # with more than twice their share, listed or not; None: an older advice
    keys_over: int | None = None
    is_replay: bool = False  # the epochs read the log faster than it came about
    read_speed: float | None = None  # log time that went by for each second while the epochs ran; None: not known
    log_pace: float | None = None  # event time that went by for each second of log time; None: not known
