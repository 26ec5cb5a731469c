"""Advice in words and rows: the same for the terminal, the page and the pull request."""

from collections.abc import Iterator

from cutover.durations import format_duration
from cutover.reconcile.result import text
from cutover.reconcile.result.advice import Advice, Culprit, FoundOutcome, NamedSetting, ProvenSetting, select_outcome

IN_FORCE, EXACT, BALANCED = "in force", "exact", "balanced"

FIGURES = (
    "exact on time",
    "exact in the end",
    "late records",
    "rows that differ",
    "on-time answer after",
    "99 % after",
    "rows held",
)
"""Heads of the figures of a setting."""

HEADS = ("", "out-of-orderness", "allowed", *FIGURES)
PROOF_HEADS = ("", "out-of-orderness", "allowed", "", "windows", *FIGURES)


def list_settings(found: Advice) -> tuple[NamedSetting, ...]:
    """Return the setting that was in force, then those that were advised or tried."""
    return (NamedSetting(name=IN_FORCE, prediction=found.in_force), *found.settings)


def setting_cells(one: NamedSetting) -> tuple[str, ...]:
    """Return name, lengths and predicted figures of a setting, windows as shares."""
    told = one.prediction
    return (one.name, *_lengths(one), *_figures(select_outcome(told), told.windows))


def list_proof_rows(found: Advice) -> Iterator[tuple[str, ...]]:
    """Yield two rows a setting that was proven: what was predicted, what was found; windows as counts."""
    for one in found.proven:
        yield from proof_rows(one)


def proof_rows(one: ProvenSetting) -> Iterator[tuple[str, ...]]:
    """Yield what was predicted of a setting and what was found, windows as counts."""
    told = select_outcome(one.setting.prediction)
    yield (one.setting.name, *_lengths(one.setting), "predicted", *_counts(told))
    found = "found" if one.holds else f"found, WRONG: {', '.join(one.wrong)}"
    yield ("", "", "", found, *_counts(one.found))


def _lengths(one: NamedSetting) -> tuple[str, str]:
    return format_duration(one.prediction.out_of_orderness), format_duration(one.prediction.allowed)


def _figures(found: FoundOutcome, windows: int) -> tuple[str, ...]:
    shares = (text.share(count / windows if windows else 0.0) for count in (found.on_time, found.exact))
    return (*shares, *_rest(found))


def _counts(found: FoundOutcome) -> tuple[str, ...]:
    return (*(f"{count:,}" for count in (found.windows, found.on_time, found.exact)), *_rest(found))


def _rest(found: FoundOutcome) -> tuple[str, ...]:
    counts = (f"{count:,}" for count in (found.late, found.late_rows))
    return (*counts, describe_wait(found.delay_p50), describe_wait(found.delay_p99), f"{found.held:,}")


def describe_wait(micros: int | None) -> str:
    """Return a length of event time; `no answer` where the watermark has passed no window."""
    return "no answer" if micros is None else text.minutes(micros / 60_000_000)


def describe_culprit(one: Culprit) -> str:
    """Return what a partition or a key that is late by more than its share has of the late records and of all."""
    return f"{one.what}: {text.share(one.late_share)} of the late records, {text.share(one.share)} of all"


def describe_advice(found: Advice) -> str:
    """Return which setting is advised: where no record is late the shortest exact one, else the balanced one."""
    name = BALANCED if found.in_force.late else EXACT
    one = next(one.prediction for one in found.settings if one.name == name)
    lengths = (format_duration(one.out_of_orderness), format_duration(one.allowed))
    setting = f"Lateness(out_of_orderness={lengths[0]!r}, allowed={lengths[1]!r})"
    if not found.in_force.late:
        none = f"No record of {found.pipeline} was late: a shorter wait is all that could be gained."
        return f"{none} {setting} is the shortest under which none would have been."
    return f"{setting} is the balanced setting."


def describe_proof(found: Advice) -> str | None:
    """Return whether runs of the streaming path found what was predicted; None: nobody asked for it."""
    if not found.proven:
        return None
    wrong = sum(not one.holds for one in found.proven)
    held = "all hold" if not wrong else f"{wrong:,} wrong"
    of = text.count_noun(len(found.proven), "prediction")
    return f"{of} for {found.pipeline}, each beside a run of the streaming path: {held}."


FILTERS = (list_settings, setting_cells, list_proof_rows, describe_culprit, describe_advice, describe_proof)
"""What templates call by its name."""
