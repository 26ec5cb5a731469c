"""The cost of both paths as a frozen tree: a part of a report, and what `cutover cost --json` prints."""

from dataclasses import dataclass

from cutover.reconcile.result.settlement import AgreementPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTotal:
    """What one path has used; a figure is None where no run of it is known."""

    runs: int  # drivers, or batch runs
    unknown_runs: int  # of these: without figures, so the totals are of the others
    records: int  # that all runs read for the first time
    measured_records: int  # that the runs with figures read
    core_seconds: float | None
    read_bytes: int | None
    written_bytes: int | None
    core_seconds_per_million: float | None  # of records


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """How long records waited from their log timestamp until a path had committed them; each figure is a bound."""

    records: int  # that the figures are of
    waiting: int  # that the path has not read
    p50: float | None  # seconds, by record: at most; None: no record has a figure
    p90: float | None
    p99: float | None
    largest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCost:
    """What was used on one day, by the processing time of epochs and the end of batch runs."""

    day: str  # ISO date, UTC
    streaming: PathTotal
    batch: PathTotal
    streaming_delay: Delay | None = None  # of the records of that day's epochs; None: kept before there was one
    batch_delay: Delay | None = None  # of the records that that day's runs read first


@dataclass(frozen=True, slots=True, kw_only=True)
class Nine:
    """One nine of agreement: 1 is 90 % of the rows, 2 is 99 %, and so on."""

    nines: int
    may_differ: int  # rows that may differ at most
    bought: int  # differing rows beyond that, which batch has to replace; 0: the stream holds it alone
    core_seconds_per_row: float | None  # of batch, for each of these; None: nothing is bought, or not known
    settled_minutes: float | None  # age from which on the stream's answer differs in no larger share of rows
    settled_windows: int | None = None  # that this age rests on; None: no age is concluded
    is_never_settled: bool = False  # the final answer differs in more rows: no waiting buys this nine


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Rows of the newest comparison, and of the stream's answers by the age of their window."""

    rows: int  # compared
    different: int
    unexplained: int = 0  # of these: without a cause
    is_replay: bool = False  # the epochs read the log faster than it came about: no age before closing is concluded
    by_age: tuple[AgreementPoint, ...] = ()  # the last one is the closing, after which no answer changes


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCosts:
    """The cost of both paths under the definition in force."""

    streaming: PathTotal
    batch: PathTotal
    days: tuple[DayCost, ...]  # the newest ones
    streaming_delay: Delay
    batch_delay: Delay
    replayed: int  # records that were older than a day when the stream read them: in no delay
    agreement: Agreement | None  # None: nothing was compared yet
    nines: tuple[Nine, ...]
    notes: tuple[str, ...]  # what is not known, and why
