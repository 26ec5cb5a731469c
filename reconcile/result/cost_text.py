"""Texts on costs for people."""

from cutover.reconcile.result.cost import Agreement, Delay, Nine, PathCosts, PathTotal
from cutover.reconcile.result.text import THIN, count_noun, duration, minutes, number

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
    return "unknown" if value is None else number(value)


def describe_lines(costs: PathCosts | None) -> list[tuple[str, str]]:
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
        seconds += f" ({number(total.core_seconds_per_million)} a million records)"
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
    if agreement is not None and agreement.is_replay:
        return "By waiting: the log was replayed, so no age before windows close is concluded."
    return "By waiting: the windows in brackets are those whose answer at that age is known."


def describe_costs(name: str, path_costs: PathCosts) -> str:
    """Describe the cost of batch, the difference that it repairs, and the next command."""
    agreement, batch = path_costs.agreement, amount_text(path_costs.batch.core_seconds)
    if not path_costs.batch.runs:
        return f"No batch run of {name} yet. Next: `cutover batch {name}`, then `cutover reconcile {name}`."
    if agreement is None:
        return f"Batch cost {batch} core-seconds; nothing says what for. Next: `cutover reconcile {name}`."
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
