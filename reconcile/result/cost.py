"""Cost of both paths as a frozen tree: a part of a report, and the output of `cutover cost --json`."""

from dataclasses import dataclass

from cutover.reconcile.result.settlement import AgreementPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTotal:
    """Resources that one path has used; a figure is None if it is unknown for all runs."""

    runs: int  # drivers, or batch runs
    unknown_runs: int  # of these: without figures, so the totals are of the others
    records: int  # read by all runs for the first time
    measured_records: int  # read by the runs with figures
    core_seconds: float | None
    read_bytes: int | None
    written_bytes: int | None
    core_seconds_per_million: float | None  # of records


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Time from the log timestamp of records until a path had committed them; each figure is an upper bound."""

    records: int  # number of records in the figures
    waiting: int  # records that the path has not read yet
    p50: float | None  # seconds, by record; None if no record has a figure
    p90: float | None
    p99: float | None
    largest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCost:
    """Resources used on one day, by the processing time of epochs and the end of batch runs."""

    day: str  # ISO date, UTC
    streaming: PathTotal
    batch: PathTotal
    streaming_delay: Delay | None = None  # of the records of that day's epochs; None in older results
    batch_delay: Delay | None = None  # of the records that that day's runs read first


@dataclass(frozen=True, slots=True, kw_only=True)
class Nine:
    """Cost of one nine of agreement: 1 is 90 % of the rows, 2 is 99 %, and so on."""

    nines: int
    may_differ: int  # maximum number of rows that may differ
    bought: int  # differing rows beyond that, which batch must replace; 0 if the stream alone reaches the nine
    core_seconds_per_row: float | None  # of batch, per replaced row; None without one, or if unknown
    settled_minutes: float | None  # age from which on the stream's answer reaches the nine
    settled_windows: int | None = None  # windows from which this age was concluded; None without an age
    is_never_settled: bool = False  # the final answer differs in more rows, so waiting never reaches this nine


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement in rows of the latest comparison, and of the stream's answers by age of their window."""

    rows: int  # compared
    different: int
    unexplained: int = 0  # of these: without a cause
    is_replay: bool = False  # the epochs read the log faster than it was written: no age before closing is concluded
    by_age: tuple[AgreementPoint, ...] = ()  # the last one is the closing, after which no answer changes


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCosts:
    """Cost of both paths under the current definition."""

    streaming: PathTotal
    batch: PathTotal
    days: tuple[DayCost, ...]  # the latest ones
    streaming_delay: Delay
    batch_delay: Delay
    replayed: int  # records that were older than a day when the stream read them; not in the delays
    agreement: Agreement | None  # None before the first comparison
    nines: tuple[Nine, ...]
    notes: tuple[str, ...]  # unknown figures, with the reason
