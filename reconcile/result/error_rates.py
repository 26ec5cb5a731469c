"""How often the reconciler itself errs, as a report shows it: rates with their bounds, of all and by kind."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutover.reconcile.result.rates import Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRates:
    """Of one kind of defect: (window, key) rows, or tables where a whole one was struck."""

    detection_rate: Rate  # of what was planted
    false_alarm_rate: Rate  # of clean windows, in comparisons in which the kind was planted
    right_cause_rate: Rate  # of what was found row by row
    refused: int = 0  # found by a refusal to compare that names the defect: counted as found, no row has a name
    unjudged: int = 0  # rows changed besides, of which no comparison says anything: their window is not judged


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRates:
    """The newest self-test of the reconciler on this pipeline."""

    at: str  # ISO
    seed: int
    passed: bool
    detection_rate: Rate  # of what was planted
    false_alarm_rate: Rate  # of windows in which nothing was planted
    right_cause_rate: Rate  # of what was found row by row, and of what differed before and was left alone
    by_kind: Mapping[str, KindRates] = field(default_factory=dict)
    refused: int = 0  # rows found by a refusal to compare, not in `right_cause_rate`
    unjudged: int = 0  # rows changed besides, of which no comparison says anything; in no rate
    drawn_in: int = 0  # rows that differed before and are judged together with a planted one; in no rate


def list_uncounted(error_rates: ErrorRates) -> tuple[tuple[int, str], ...]:
    """Return what stands in no rate, or in some only: how many rows, and why in words."""
    return (
        (
            error_rates.refused,
            "rows found by a refusal to compare that names their defect: found, but not named row by row",
        ),
        (
            error_rates.unjudged,
            "rows changed beside those planted: their windows are not judged, or they differed before",
        ),
        (error_rates.drawn_in, "rows that differed before and are judged together with planted ones"),
    )
