"""Page docs/benchmarks.md with its plots, generated from docs/benchmarks/*.json."""

from pathlib import Path
from statistics import median

from benchmarks.figures import NAMES
from benchmarks.results import plots
from benchmarks.results.figure import Figure, Value
from benchmarks.results.goals import GOALS, Goal

HEAD = """# Benchmarks

The table shows what Cutover costs, compared with the cheapest possible Spark query and with handwritten jobs, and
whether each figure reaches its goal. `make bench` writes this page from [benchmarks/](benchmarks/)`*.json`.

Everything runs on one machine, including a real broker, Spark, Delta and the producer. The compared programs run
alternately in one session, the first round is dropped, a ratio is computed within a round, and the number shown is the
median over the rounds (lowest to highest). The outputs of peers are compared before a figure is written. The peers are
small files: [benchmarks/peers/](../benchmarks/peers).

Quote the ratios; seconds and rates depend on the machine and its load. `load before` is the load average at the start:
if it is above the number of cores, other work was running, rates are low and spreads are wide.
"""


def store(folder: Path, figure: Figure) -> None:
    """Write a figure as JSON."""
    json_folder = folder / "benchmarks"
    json_folder.mkdir(parents=True, exist_ok=True)
    (json_folder / f"{figure.name}.json").write_text(figure.to_json(), encoding="utf-8")


def write(folder: Path) -> None:
    """Write the page and the plots of all stored figures."""
    json_folder = folder / "benchmarks"
    paths = [json_folder / f"{name}.json" for name in NAMES]
    stored_figures = [Figure.read(path) for path in paths if path.is_file()]
    for figure in stored_figures:
        (json_folder / f"{figure.name}.svg").write_text(plots.draw(figure) + "\n", encoding="utf-8")
    text = "\n".join([HEAD, _format_table(stored_figures), *(_format_section(figure) for figure in stored_figures)])
    (folder / "benchmarks.md").write_text(text, encoding="utf-8")


def _format_table(figures: list[Figure]) -> str:
    by_goal = {value.goal: (value, figure) for figure in figures for value in figure.values}
    rows = [_format_row(goal, *by_goal[goal.name]) for goal in GOALS if goal.name in by_goal]
    absent = [goal.text for goal in GOALS if goal.name not in by_goal]
    lines = ["| figure | goal | measured | reached | command |", "|---|---|---|---|---|", *rows, ""]
    return "\n".join([*lines, *(f"Not measured: {text}." for text in absent), ""])


def _format_row(goal: Goal, value: Value, figure: Figure) -> str:
    outcome = {True: "yes", False: "**no**", None: ""}[goal.reached(value.value)]
    size = "" if figure.full else " (smaller sizes)"
    return f"| {goal.text} | {goal.description} | {format_value(goal, value)}{size} | {outcome} | `{figure.command}` |"


def format_value(goal: Goal, value: Value) -> str:
    """Format a value with its spread."""
    low, high = format_number(value.low), format_number(value.high)
    unit = "" if goal.unit == "x" else f" {goal.unit}"
    spread = "" if value.low == value.high else f" ({low} to {high})"
    return f"{format_number(value.value)}{unit}{spread}"


def format_number(value: float) -> str:
    """Format a number with three significant digits, from 100 on as an integer with thousands separators."""
    return f"{round(value):,}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 -- the limit of the format


def _format_section(figure: Figure) -> str:
    lines = [f"## {figure.title}", "", f"![{figure.title}](benchmarks/{figure.name}.svg)", ""]
    lines += [f"| variant | median, {figure.unit} | lowest | highest |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {format_number(median(samples))} | {format_number(min(samples))} | {format_number(max(samples))} |"
        for name, samples in figure.samples.items()
    ]
    sizes = ", ".join(f"{name.replace('_', ' ')} {format_number(size)}" for name, size in figure.sizes.items())
    lines += ["", f"Sizes: {sizes}."]
    lines += [f"Equal: {text}." for text in figure.equal]
    lines += list(figure.notes)
    machine = ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in figure.machine.items())
    lines += [f"Machine: {machine}.", ""]
    return "\n".join(lines)
