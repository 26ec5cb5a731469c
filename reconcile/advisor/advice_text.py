"""Advice in words and rows: the same for the terminal, the page and the pull request."""

from collections.abc import Iterator, Sequence

from cutover.lake.epochs.read_speed import tells_real_speed
from cutover.reconcile.result import text
from cutover.reconcile.result.lateness_text import UNKNOWN_SPEED, describe_replayed
from cutover.reconcile.result.parts import (
    Advice,
    Culprit,
    MeasuredOutcome,
    NamedSetting,
    Prediction,
    ProvenSetting,
    select_outcome,
)
from cutover.timestamps import shorten_duration

IN_FORCE, FASTEST, EXACT, BALANCED = "in force", "fastest", "exact", "balanced"

FIGURES = (
    "exact on time",
    "exact in the end",
    "late records",
    "rows that differ",
    "on-time answer after",
    "99 % after",
    "rows held",
)
"""Headings of the figures of a setting, as the epochs read the log."""

HEADS = ("", "out-of-orderness", "allowed", *FIGURES, "late at real speed", "exact in the end at real speed")
PROOF_HEADS = ("", "out-of-orderness", "allowed", "", "windows", *FIGURES)

_CULPRITS = "late partition, late key: at least 5 late records, and more than twice its share of all records."

_NEARLY_ALL = 1_000
"""Windows below which 99.9 % of them are all of them."""


def list_named_settings(advice: Advice) -> tuple[NamedSetting, ...]:
    """Return the setting that was in force, then those that were advised or tried."""
    return (NamedSetting(name=IN_FORCE, prediction=advice.in_force), *advice.settings)


def setting_cells(named_setting: NamedSetting) -> tuple[str, ...]:
    """Return name, lengths and predicted figures of a setting, windows as shares."""
    prediction = named_setting.prediction
    return (
        named_setting.name,
        *_lengths(named_setting),
        *_figures(select_outcome(prediction), prediction.windows),
        *_real_cells(prediction),
    )


def list_distinct_rows(predictions: Sequence[Prediction], in_force: Prediction) -> list[tuple[str, ...]]:
    """List the rows of a grid; of those with equal figures as shown only the one with the shortest wait.

    Args:
        predictions: Of all settings, by both lengths.
        in_force: Listed even where a shorter setting has the same figures.
    """
    shortest = sorted(
        predictions,
        key=lambda prediction: (prediction.out_of_orderness + prediction.allowed, prediction.out_of_orderness),
    )
    by_figures: dict[tuple[str, ...], Prediction] = {}
    for prediction in shortest:
        by_figures.setdefault(setting_cells(NamedSetting(name="", prediction=prediction))[3:], prediction)
    in_force_lengths = _lengths_of(in_force)
    distinct_lengths = {_lengths_of(prediction) for prediction in by_figures.values()} | {in_force_lengths}
    return [
        setting_cells(
            NamedSetting(name=IN_FORCE if _lengths_of(prediction) == in_force_lengths else "", prediction=prediction)
        )
        for prediction in predictions
        if _lengths_of(prediction) in distinct_lengths
    ]


def list_explanations(advice: Advice) -> tuple[str, ...]:
    """Return explanations of the columns and lines that are shown."""
    real = (
        "" if advice.in_force.real is None else ", at real speed as if each record had been read when it was appended"
    )
    return (
        f"Figures are as the epochs read the log{real}.",
        "rows held: largest number of (window, key) rows open at the same time, which is the state of the stream.",
        *((_CULPRITS,) if advice.partitions or advice.keys else ()),
    )


def _real_cells(prediction: Prediction) -> tuple[str, str]:
    if prediction.real is None:
        return "unknown", "unknown"
    return f"{prediction.real.late:,}", _share(prediction.real.exact, prediction.windows)


def list_proof_rows(advice: Advice) -> Iterator[tuple[str, ...]]:
    """Yield two rows for each proven setting: predicted and actual; windows as counts."""
    for proven_setting in advice.proven:
        yield from proof_rows(proven_setting)


def proof_rows(proven_setting: ProvenSetting) -> Iterator[tuple[str, ...]]:
    """Yield the prediction and the result for a setting, windows as counts."""
    outcome = select_outcome(proven_setting.setting.prediction)
    yield (proven_setting.setting.name, *_lengths(proven_setting.setting), "predicted", *_counts(outcome))
    label = "found" if proven_setting.holds else f"found, WRONG: {', '.join(proven_setting.wrong)}"
    yield ("", "", "", label, *_counts(proven_setting.found))


def _lengths(named_setting: NamedSetting) -> tuple[str, str]:
    return shorten_duration(named_setting.prediction.out_of_orderness), shorten_duration(
        named_setting.prediction.allowed
    )


def _figures(outcome: MeasuredOutcome, windows: int) -> tuple[str, ...]:
    return (*(_share(count, windows) for count in (outcome.on_time, outcome.exact)), *_rest(outcome))


def _share(count: int, windows: int) -> str:
    return text.share(count / windows) if windows else "no window"


def _counts(outcome: MeasuredOutcome) -> tuple[str, ...]:
    return (*(f"{count:,}" for count in (outcome.windows, outcome.on_time, outcome.exact)), *_rest(outcome))


def _rest(outcome: MeasuredOutcome) -> tuple[str, ...]:
    counts = (f"{count:,}" for count in (outcome.late, outcome.late_rows))
    return (*counts, describe_wait(outcome.delay_p50), describe_wait(outcome.delay_p99), f"{outcome.held:,}")


def describe_wait(micros: int | None) -> str:
    """Format a length of event time; `no answer` if the watermark has passed no window."""
    return "no answer" if micros is None else text.minutes(micros / 60_000_000)


def describe_culprit(culprit: Culprit) -> str:
    """Describe the share that a partition or key has of the late records and of all records."""
    return f"{culprit.what}: {text.share(culprit.late_share)} of the late records, {text.share(culprit.share)} of all"


def list_unlisted(advice: Advice) -> tuple[str, ...]:
    """Return a sentence each if only the first partitions or keys are listed."""
    totals_by_noun = (
        ("partition", len(advice.partitions), advice.partitions_over),
        ("key", len(advice.keys), advice.keys_over),
    )
    return tuple(
        f"{count:,} of {text.count_noun(total, noun)} with more than twice their share of the late records are listed."
        for noun, count, total in totals_by_noun
        if total is not None and total > count
    )


def describe_advice(advice: Advice) -> str:
    """Describe the advised setting, the late records under it at real speed, and settings that coincide."""
    advised = _find_advised(advice)
    lengths = (shorten_duration(advised.prediction.out_of_orderness), shorten_duration(advised.prediction.allowed))
    setting = f"Lateness(out_of_orderness={lengths[0]!r}, allowed={lengths[1]!r})"
    in_force = ", and it is in force" if is_in_force(advice) else ""
    if not advice.is_conclusive:
        sentences = [_describe_inconclusive(advice, f"{setting} is the {advised.name} one")]
    elif advised.name == BALANCED:
        sentences = [f"{setting} is the balanced setting{in_force}.", *_describe_real(advised.prediction)]
    else:
        shortest = f"{setting} is the shortest under which none {_describe_none(advice, advised.prediction)}{in_force}."
        sentences = [_describe_none_late(advice), shortest]
    return " ".join((*sentences, *describe_coincidences(advice)))


def _describe_inconclusive(advice: Advice, setting: str) -> str:
    replay = "The log was replayed" if advice.is_replay else "It is unknown whether the log was replayed"
    return (
        f"{replay}, and log timestamps do not show what would be late at real speed, so no setting is recommended:"
        f" {setting} only for the epochs that read the log."
    )


def _describe_none_late(advice: Advice) -> str:
    real, gain = advice.in_force.real, "" if is_in_force(advice) else ": a shorter wait is all that could be gained"
    if advice.is_by_real_speed:
        return f"No record of {advice.pipeline} would be late at real speed{gain}."
    if real is not None and real.late:
        late = text.count_noun(real.late, "record")
        return f"No record of {advice.pipeline} was late in these epochs; at real speed {late} would have been."
    return f"No record of {advice.pipeline} was late{gain}."


def _describe_none(advice: Advice, prediction: Prediction) -> str:
    """Describe how no record is late under a setting, with the late ones by the other way of reading the log."""
    if advice.is_by_real_speed:
        return f"would be late at real speed (as the epochs read them, {prediction.late:,})"
    real = "" if prediction.real is None else f" (at real speed, {prediction.real.late:,} would be)"
    return f"would have been late in these epochs{real}"


def is_in_force(advice: Advice) -> bool:
    """Return whether the advised setting is the one in force."""
    return _lengths_of(_find_advised(advice).prediction) == _lengths_of(advice.in_force)


def _find_advised(advice: Advice) -> NamedSetting:
    real = advice.in_force.real
    late = real.late if advice.is_by_real_speed and real is not None else advice.in_force.late
    return _find(advice, BALANCED if late else EXACT)


def _find(advice: Advice, name: str) -> NamedSetting:
    return next(setting for setting in advice.settings if setting.name == name)


def _describe_real(prediction: Prediction) -> tuple[str, ...]:
    if prediction.real is None:
        return ()
    late = text.count_noun(prediction.real.late, "record")
    return (f"At real speed {late} would be late under it, as the epochs read them {prediction.late:,}.",)


def describe_coincidences(advice: Advice) -> tuple[str, ...]:
    """Explain which of the advised settings coincide."""
    fastest, balanced, exact = (_find(advice, name).prediction for name in (FASTEST, BALANCED, EXACT))
    windows = text.count_noun(balanced.windows, "window")
    sentences = []
    if _lengths_of(balanced) == _lengths_of(exact):
        reason = f"99.9 % of {windows} is all of them"
        if balanced.windows >= _NEARLY_ALL:
            reason = f"the wait that makes 99.9 % of {windows} exact leaves no record late"
        sentences.append(f"balanced and exact are one: {reason}.")
    if _lengths_of(fastest) == _lengths_of(balanced):
        sentences.append(f"fastest and balanced are one: 99 % of {windows} are exact on time without any wait.")
    return tuple(sentences)


def _lengths_of(prediction: Prediction) -> tuple[int, int]:
    return prediction.out_of_orderness, prediction.allowed


def describe_speed(advice: Advice) -> str | None:
    """Describe that the log was replayed, and whether its timestamps show what would be late at real speed."""
    sentences = []
    if advice.is_replay is None:
        sentences.append(UNKNOWN_SPEED)
    if advice.is_replay:
        choice = ", so settings are chosen by the figures at real speed" if advice.is_by_real_speed else ""
        sentences.append(f"{describe_replayed(advice.read_speed)}{choice}.")
    if not tells_real_speed(advice.log_pace):
        fast = "do not show when records were produced"
        if advice.log_pace is not None:
            fast = f"are those of a load, {round(advice.log_pace):,} times faster than event time"
        sentences.append(f"Log timestamps {fast}, so what would be late at real speed is unknown.")
    return " ".join(sentences) or None


def describe_proof(advice: Advice) -> str | None:
    """Describe whether runs of the streaming path confirmed the predictions; None: no proof was requested."""
    if not advice.proven:
        return None
    wrong = sum(not proven_setting.holds for proven_setting in advice.proven)
    conclusion = "all hold" if not wrong else f"{wrong:,} wrong"
    of = text.count_noun(len(advice.proven), "prediction")
    return f"{of} for {advice.pipeline}, each compared with a run of the streaming path: {conclusion}."


FILTERS = (
    list_named_settings,
    setting_cells,
    list_proof_rows,
    list_unlisted,
    list_explanations,
    describe_culprit,
    describe_advice,
    describe_speed,
    describe_proof,
)
"""Functions that templates call by name."""
