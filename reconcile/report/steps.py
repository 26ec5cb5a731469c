"""Differences of one comparison as a tree, and the next steps: a runbook filled with the pipeline, windows and offsets.

The tree has windows, then keys, then the cells and the records behind them, by partition and offset. Command lines make
the comparison again and lead to these rows; values are quoted for a shell. The report shows the page of `docs/runbooks`
in full, so that it opens without a network.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from markdown_it import MarkdownIt
from markupsafe import Markup

from cutover import runbooks
from cutover.definition.loading.key_text import format_argument
from cutover.lake.control.versions import format_option
from cutover.log.topic_partitions import format_partition_number
from cutover.reconcile.result.codec import Scalar
from cutover.reconcile.result.finding import Difference
from cutover.reconcile.result.parts import DifferenceLife, RecordBehind
from cutover.reconcile.result.report import Report
from cutover.reconcile.result.text import count_noun, format_number, parse_iso_time, when
from cutover.reconcile.verdict import decision
from cutover.runbooks import split_head

LONGEST_TYPED = 200  # characters of a text that a command line names
OPEN_AT_MOST = 20  # windows before the fold
_Place = tuple[str | None, tuple[tuple[str, Scalar], ...]]


@dataclass(slots=True, kw_only=True)
class KeyBranch:
    """One (window, key) row that differs."""

    key: Mapping[str, Scalar]
    kind: str  # missing, extra or changed
    cause: str
    cells: list[Difference] = field(default_factory=list)
    records: Sequence[RecordBehind] = ()
    life: DifferenceLife | None = None  # when it was first found; None: it has a cause, or no history
    command: str | None = None  # shows it in full; None: its key cannot be typed


@dataclass(slots=True, kw_only=True)
class WindowBranch:
    """One window and its rows that differ, as far as the report lists them."""

    window_start: str
    keys: list[KeyBranch] = field(default_factory=list)

    @property
    def causes(self) -> list[str]:
        """Return the causes of its rows, each once, in the order of the rows."""
        return list(dict.fromkeys(key.cause for key in self.keys))


def build(result: Report) -> list[WindowBranch]:
    """Return the listed differences by window and key, in the order in which the result lists them.

    A difference that names no window has no place in it.
    """
    records: dict[_Place, list[RecordBehind]] = {}
    for record in result.finding.behind:
        records.setdefault(_place(record.window_start, record.key), []).append(record)
    lives = {_place(life.window_start, life.key): life for life in result.lives}
    windows: dict[str, WindowBranch] = {}
    keys: dict[_Place, KeyBranch] = {}
    for cell in result.finding.differences:
        if cell.window_start is None:
            continue
        place = _place(cell.window_start, cell.key)
        if place not in keys:
            keys[place] = KeyBranch(key=cell.key, kind=cell.kind, cause=cell.cause, records=records.get(place, ()))
            keys[place].life = lives.get(place)
            keys[place].command = (
                explain_command(result.finding.pipeline, cell, result.finding.seal.stream_version)
                if result.finding.kind == "pipeline"
                else None
            )
            branch = windows.setdefault(cell.window_start, WindowBranch(window_start=cell.window_start))
            branch.keys.append(keys[place])
        keys[place].cells.append(cell)
    return list(windows.values())


def _place(window: str | None, key: Mapping[str, Scalar]) -> _Place:
    return window, tuple(key.items())


def explain_command(pipeline: str, cell: Difference, version: int | None) -> str | None:
    """Return the command line that explains a cell of a version; None if its key is not one that people type."""
    if cell.window_start is None or not all(map(_can_type, cell.key.values())):
        return None
    return explain_line(pipeline, cell.window_start, cell.key, version)


def explain_line(pipeline: str, window_start: str, key: Mapping[str, Scalar], version: int | None = None) -> str:
    """Return the command line that explains a row, quoted for a shell; a key is never taken for an option."""
    options = ["--version", str(version)] if version else []  # of the first there is no need
    return shlex.join(["cutover", "explain", pipeline, *options, window_start, format_argument(key)])


def _can_type(value: Scalar) -> bool:
    return not isinstance(value, str) or len(value) <= LONGEST_TYPED


EXAMPLE = "flights"
"""Pipeline in the examples of the runbooks."""

PARTITIONS_AT_MOST = 8
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_UNEXPLAINED = "unexplained"

Command = tuple[str, str]
"""What it does, and the line."""

_LATE = "SELECT window_start, count(*) AS late FROM ledger WHERE _class = 'late' GROUP BY ALL ORDER BY 1"

_REPAIR = "what batch computes for these windows now; nothing changes without --publish"
_RECOMPUTE = "recompute the sessions that changed, then compare again"
_WINDOWS_NAMED = 3  # of a line that people copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One line about an affected item."""

    name: str
    description: str


def details(result: Report) -> list[Detail]:
    """Return pipeline, windows, offsets and cut that the steps are about; those without a cause before any others."""
    lines = [Detail(name="Pipeline", description=result.finding.pipeline)]
    cells = _choose_cells(result)
    starts = sorted({at for cell in cells if (at := parse_iso_time(cell.window_start)) is not None})
    if starts:
        words = f"{count_noun(len(starts), 'window')} of those listed, "
        lines.append(Detail(name="Windows", description=words + _format_span(starts)))
    lines += _offsets(result)
    lines += _last_similar(result)
    lines += [
        Detail(
            name=f"Cut of {log.topic}", description=", ".join(f"{p}: {format_number(n)}" for p, n in log.cut.items())
        )
        for log in result.finding.seal.logs
    ]
    return lines


def _last_similar(result: Report) -> Iterator[Detail]:
    """Yield when the same verdict stood last before another one did: an incident that is over, not this one's begin."""
    name, is_over = decision.name_report_outcome(result), False
    for past_run in reversed([run for run in result.trend if run.run_id != result.run.run_id]):
        is_same_verdict = (
            past_run.verdict == result.finding.verdict.value and past_run.within == result.finding.policy.within
        )
        if is_same_verdict and is_over and decision.find_runbook(result) is not None:
            counts_text = f"{count_noun(past_run.rows, 'row')} in {count_noun(past_run.different, 'window')}"
            description = (
                f"{when(past_run.at)} UTC, {name} at epoch {past_run.epoch}, {counts_text} (run {past_run.run_id})"
            )
            yield Detail(name="Last similar incident", description=description)
            return
        is_over = is_over or not is_same_verdict


def _format_span(starts: list[datetime]) -> str:
    start, end = (when(at.isoformat()) for at in (starts[0], starts[-1]))
    return f"{start} UTC" if start == end else f"{start} to {end} UTC"


def _choose_cells(result: Report) -> list[Difference]:
    """Return the listed cells without a cause; all where each has one."""
    bare = [cell for cell in result.finding.differences if cell.cause == _UNEXPLAINED]
    return bare or list(result.finding.differences)


def _offsets(result: Report) -> Iterator[Detail]:
    places = {(cell.window_start, tuple(cell.key.items())) for cell in _choose_cells(result)}
    offsets_by_partition: dict[int, list[int]] = {}
    for record in result.finding.behind:
        if (record.window_start, tuple(record.key.items())) in places:
            offsets_by_partition.setdefault(record.partition, []).append(record.offset)
    texts = []
    for partition, offsets in sorted(offsets_by_partition.items()):
        records = count_noun(len(offsets), "record")
        span = f"{format_number(min(offsets))} to {format_number(max(offsets))}"
        texts.append(f"partition {format_partition_number(partition)}: {span} ({records})")
    if texts:
        more = len(texts) - PARTITIONS_AT_MOST
        shown_text = "; ".join(texts[:PARTITIONS_AT_MOST])
        yield Detail(
            name="Offsets", description=shown_text + (f"; and {count_noun(more, 'partition')} more" if more > 0 else "")
        )


def fill_runbook(text: str, result: Report) -> str:
    """Return a runbook's text with this comparison's pipeline, window, key and range in its command lines.

    What cannot be typed as it stands stays the example's: the text is Markdown, and a name or key is data.
    """
    text = fill_name(text, result.finding.pipeline)
    if result.finding.windows.merges:  # sessions: batch alone knows where they begin
        text = re.sub(r"cutover repair (\S+) --window <start>", r"cutover batch \1", text)
        text = re.sub(r"(cutover batch \S+) --from \.\.\. --to \.\.\.", r"\1", text)
    cells = [cell for cell in _choose_cells(result) if _can_stand_in_markdown(cell)]
    if cells:
        place = explain_command("p", cells[0], result.finding.seal.stream_version) or ""
        text = text.replace("--window <start>", f"--window {cells[0].window_start}")
        text = text.replace("<window> <key>", place.removeprefix("cutover explain p "))
    starts = sorted(at for cell in _choose_cells(result) if (at := parse_iso_time(cell.window_start)) is not None)
    if starts:
        first_day, day_after = f"{starts[0]:%Y-%m-%d}", f"{_day_after(starts[-1]):%Y-%m-%d}"
        text = text.replace("--from ... --to ...", f"--from {shlex.quote(first_day)} --to {shlex.quote(day_after)}")
    return text


def fill_name(text: str, pipeline: str) -> str:
    """Return a runbook's text with a pipeline's name in its command lines and its DAGs; as it is, if it is no name."""
    if not _NAME.match(pipeline):
        return text
    text = re.sub(rf"\b(cutover [\w-]+ ){EXAMPLE}\b", rf"\g<1>{pipeline}", text)
    return re.sub(rf"\b{EXAMPLE}(_(?:stream|batch|reconcile))\b", rf"{pipeline}\g<1>", text)


def _can_stand_in_markdown(cell: Difference) -> bool:
    line = explain_command("p", cell, None)
    return line is not None and not set(line) & set("`<>&|\\\n")


def _day_after(at: datetime) -> datetime:
    return at + min(timedelta(days=1), datetime.max.replace(tzinfo=at.tzinfo) - at)


def commands(result: Report) -> list[Command]:
    """List (title, command line): the same comparison again, then what is behind it; none for two tables."""
    if result.finding.kind == "tables":
        return []
    name = shlex.quote(result.finding.pipeline)
    repeat_commands = [("the same comparison again, at this cut", _repeat(name, result))]
    repeat_commands += [_explain(result, cell) for cell in _pick_cells(result.finding.differences)[:2]]
    repaired = dict.fromkeys(cell.window_start for cell in result.finding.differences if cell.window_start)
    if repaired and result.finding.windows.merges:
        repeat_commands.append((_RECOMPUTE, f"cutover batch {name} && cutover reconcile {name}"))
    elif repaired:
        repeat_commands.append((_REPAIR, _repair(name, [*repaired][:_WINDOWS_NAMED])))
    if result.finding.events.late:
        repeat_commands.append(
            (
                "late records by window",
                f'cutover sql {name}{format_option(result.finding.seal.stream_version)} "{_LATE}"',
            )
        )
    return [
        *repeat_commands,
        ("when this verdict last was another, and what changed", f"cutover history {name}"),
        ("lag and watermark now", f"cutover watch {name} --once"),
        ("the evidence so far", f"cutover gate {name} show"),
    ]


def _repeat(name: str, result: Report) -> str:
    """Return the command that compares the same windows at the same cut."""
    version = result.finding.seal.stream_version or None
    options = (
        ("--cut", result.finding.seal.epoch),
        ("--version", version),
        ("--from", result.finding.from_),
        ("--to", result.finding.to),
    )
    option_text = "".join(f" {option} {shlex.quote(str(value))}" for option, value in options if value is not None)
    return f"cutover reconcile {name}{option_text} --json"


def _repair(name: str, starts: list[str]) -> str:
    """Return the command that recomputes windows without changing the tables."""
    return f"cutover repair {name} {' '.join(f'--window {shlex.quote(start)}' for start in starts)}"


def _pick_cells(differences: tuple[Difference, ...]) -> list[Difference]:
    """Return one cell for each cause, of those whose key can be typed."""
    cells_by_cause: dict[str, Difference] = {}
    for cell in differences:
        if explain_command("p", cell, None) is not None:
            cells_by_cause.setdefault(cell.cause, cell)
    return list(cells_by_cause.values())


def _explain(result: Report, cell: Difference) -> Command:
    command = explain_command(result.finding.pipeline, cell, result.finding.seal.stream_version)
    return f"the rows behind one cell ({cell.cause})", command or ""


def html(name: str, fill: Callable[[str], str] = str) -> Markup | None:
    """Return a runbook as HTML without its head and title, its headings one level deeper; None if there is no page.

    Links to other pages become their names: a report lies elsewhere than the pages.

    Args:
        name: Of the page.
        fill: What to make of its text, in Markdown, before it is rendered.
    """
    text = runbooks.read_text(name)
    if text is None:
        return None
    body = split_head(text)[1].partition("\n")[2]
    deeper = re.sub(r"^(#+ )", r"#\1", body, flags=re.MULTILINE)
    without_links = re.sub(r"\[([^\]]+)\]\((?:\.\./)?[\w/-]+\.md(?:#[\w-]+)?\)", r"`\1`", fill(deeper))
    # The text is ours, markup in it is switched off all the same.
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(without_links))  # noqa: S704 -- rendered with html off
