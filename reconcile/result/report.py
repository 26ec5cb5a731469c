"""Reports of comparisons: a finding, the metadata of the run that recorded it, and what the page shows in addition.

The published JSON object (`report.schema.json`) is flat: the fields of all three values and `schema`. The costs of both
paths, with their texts, are part of a report and the output of `cutover cost --json`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from cutover.lake.batch_runs import Range
from cutover.reconcile.result.codec import decode_tree, encode_tree
from cutover.reconcile.result.finding import Finding, TablesRead, rename_fields
from cutover.reconcile.result.measurements import EarlyAnswers, LogLateness
from cutover.reconcile.result.parts import (
    Advice,
    AgreementPoint,
    DifferenceLife,
    ErrorRates,
    NoiseLevel,
    RunOfTrend,
    Settlement,
)
from cutover.reconcile.result.text import THIN, count_noun, duration, format_number, minutes


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
    is_replay: bool | None = False  # no age before closing is concluded of a replay; None: unknown, and no age at all
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


_UNITS = ("B", "kB", "MB", "GB", "TB")
_STEP = 1000


def size_text(value: int | None) -> str:
    """Format a number of bytes in its largest unit, with two decimals: `1.23 MB`."""
    if value is None:
        return "unknown"
    size, unit = float(value), 0
    while round(size, 2) >= _STEP and unit < len(_UNITS) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{size:.{0 if unit == 0 else 2}f}{THIN}{_UNITS[unit]}"


def nines_text(nines: int) -> str:
    """Format a number of nines as a percentage: 3 is `99.9 %`."""
    percentage = 100 - 10 ** (2 - nines)
    return f"{percentage:.{max(0, nines - 2)}f}{THIN}%"


def amount_text(value: float | None) -> str:
    """Format a figure; `unknown` for None."""
    return "unknown" if value is None else format_number(value)


def describe_cost_lines(costs: PathCosts | None) -> list[tuple[str, str]]:
    """Return a heading and a line for each path; empty if no cost could be read."""
    if costs is None:
        return []
    paths = (("streaming", costs.streaming, costs.streaming_delay), ("batch", costs.batch, costs.batch_delay))
    return [(f"cost of {name}", _describe_path(total, delay)) for name, total, delay in paths]


def _describe_path(total: PathTotal, delay: Delay) -> str:
    if not total.runs:
        return "no run"
    seconds = f"{amount_text(total.core_seconds)} core-seconds"
    if total.core_seconds_per_million is not None:
        seconds += f" ({format_number(total.core_seconds_per_million)} a million records)"
    delay_text = "unknown" if delay.p99 is None else f"99{THIN}% within {duration(delay.p99)}"
    if delay.waiting:
        delay_text += f", {count_noun(delay.waiting, 'record')} still waiting"
    bytes_text = f"read {size_text(total.read_bytes)}, wrote {size_text(total.written_bytes)}"
    return f"{count_noun(total.runs, 'run')}, {seconds}, {bytes_text}, delay {delay_text}"


def describe_nine(nine: Nine) -> tuple[str, str, str, str, str]:
    """Return the cells of one nine: rows that agree, may differ, held by, core-seconds per row, by waiting."""
    price = amount_text(nine.core_seconds_per_row) if nine.bought else ""
    holder = f"batch, {count_noun(nine.bought, 'row')} replaced" if nine.bought else "the stream alone"
    return nines_text(nine.nines), f"{nine.may_differ:,}", holder, price, describe_waiting(nine)


def describe_waiting(nine: Nine) -> str:
    """Describe the wait after which the stream's answer reaches a nine: `never` if its final answer does not."""
    if nine.is_never_settled:
        return "never"
    if nine.settled_minutes is None:
        return "unknown"
    rests_on = "" if nine.settled_windows is None else f" ({count_noun(nine.settled_windows, 'window')})"
    return f"{minutes(nine.settled_minutes)}{rests_on}"


def describe_waiting_basis(path_costs: PathCosts) -> str:
    """Describe the basis of the ages in `by waiting`."""
    agreement = path_costs.agreement
    if agreement is not None and agreement.is_replay is None:
        return "By waiting: it is unknown whether the log was replayed, so no age is concluded."
    if agreement is not None and agreement.is_replay:
        return "By waiting: records were replayed, so no age before windows close is concluded."
    return "By waiting: the windows in brackets are those whose answer at that age is known."


def describe_costs(name: str, path_costs: PathCosts) -> str:
    """Describe the cost of batch, the difference that it repairs, and the next command."""
    agreement, batch = path_costs.agreement, amount_text(path_costs.batch.core_seconds)
    if not path_costs.batch.runs:
        return f"No batch run of {name} yet. Next: `cutover batch {name}`, then `cutover reconcile {name}`."
    if agreement is None:
        return f"Batch cost {batch} core-seconds; what for, no comparison shows yet. Next: `cutover reconcile {name}`."
    return f"Batch cost {batch} core-seconds; {describe_difference(agreement)}. Next: `cutover gate {name} show`."


def describe_difference(agreement: Agreement) -> str:
    """Describe the number of rows in which the paths differ; without a cause, either path may be right."""
    rows = f"the paths differ in {agreement.different:,} of {count_noun(agreement.rows, 'row')}"
    if not agreement.unexplained:
        return rows
    return f"{rows}, {agreement.unexplained:,} of them without a cause: which path is right there is not known"


def describe_price(name: str, path_costs: PathCosts | None) -> str:
    """Describe the cost that a pipeline would save without batch, and the accuracy that it would lose, for the gate."""
    if path_costs is None or not path_costs.batch.runs or path_costs.agreement is None:
        return f"What batch costs and buys: not known yet (`cutover cost {name}`)."
    batch_text, stream_text = (amount_text(total.core_seconds) for total in (path_costs.batch, path_costs.streaming))
    rows = describe_difference(path_costs.agreement)
    return f"Batch cost {batch_text} core-seconds, the stream {stream_text}; {rows} (`cutover cost {name}`)."


SCHEMA = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOutcome:
    """Finding of one comparison, with what was measured on the open sides and is not part of the finding."""

    finding: Finding
    tables: TablesRead = field(default_factory=TablesRead)
    settlement: Settlement | None = None  # not part of the finding, because it depends on compaction
    early: EarlyAnswers | None = None  # the same
    skipped_ranges: tuple[Range, ...] = ()  # closed windows that were skipped, and the range of open ones; microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """Run that made a comparison, and where its files are; paths are relative to the reports folder."""

    run_id: str
    at: str  # ISO; for a repeated finding the time of its first run
    seconds: float = 0.0
    tables: TablesRead = field(default_factory=TablesRead)
    scope_note: str | None = None  # its limited scope, as a sentence; None for the current comparison
    repeats: int = 0  # earlier runs with the same finding at this cut and over this range
    repeated_at: str | None = None  # ISO; time of this run, if it repeats a finding
    report: str | None = None  # JSON
    page: str | None = None  # HTML
    parquet: str | None = None  # every row that differs; None if the file was not written

    @property
    def report_path(self) -> str | None:
        """Return the path of the HTML page, or of the JSON file."""
        return self.page or self.report


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Complete data of one comparison for the page, the JSON and the terminal."""

    finding: Finding
    run: RunMetadata
    settlement: Settlement | None = None  # None: no window was compared
    early: EarlyAnswers | None = None  # None: no window was compared
    lives: tuple[DifferenceLife, ...] = ()  # of the unexplained rows in `differences`
    trend: tuple[RunOfTrend, ...] = ()  # latest comparisons of the definition, including this one, oldest first
    self_test: ErrorRates | None = None  # None: none under this definition
    log_lateness: LogLateness | None = None  # the newest of `cutover lateness`; None: none under this definition
    noise: NoiseLevel | None = None  # the newest of `cutover noise`; None: none under this definition
    advice: Advice | None = None  # the newest of `cutover advise`; None: none under this definition
    cost: PathCosts | None = None  # of both paths; None: no epoch could be read
    own_tables: str | None = None  # which tables of the team's own jobs people read: a sentence; None: no such job

    def to_json(self) -> dict[str, Any]:
        """Encode the report as one flat JSON object: finding, run and additions side by side, with the schema."""
        additions = {name: encode_tree(getattr(self, name)) for name in _ADDITIONS}
        run: dict[str, Any] = encode_tree(self.run)
        return {"schema": SCHEMA} | self.finding.to_json() | run | additions

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> "Report":
        """Parse a report from a published object; fields of newer versions are ignored.

        Raises:
            LakeError: It is not the object of a report.
        """
        flat = rename_fields(raw, {"from": "from_", "class": "class_"})
        return decode_tree(
            Report, {"finding": flat, "run": flat} | {name: flat[name] for name in _ADDITIONS if name in flat}
        )


_ADDITIONS = tuple(report_field.name for report_field in fields(Report) if report_field.name not in {"finding", "run"})
