"""Error rates of the reconciler for a report: rates with their bounds, in total and by kind of defect."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutover.reconcile.result.rates import Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRates:
    """Rates for one kind of defect: of (window, key) rows, or of tables if a defect damages an entire table."""

    detection_rate: Rate  # of planted defects
    false_alarm_rate: Rate  # of clean windows, in comparisons in which the kind was planted
    right_cause_rate: Rate  # of defects found row by row
    refused: int = 0  # found by a NOT_COMPARABLE that names the defect: counted as found, without a cause per row
    not_compared: int = 0  # other changed rows, in windows that are not compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRates:
    """Rates of the latest self-test of the reconciler on this pipeline."""

    at: str  # ISO
    seed: int
    passed: bool
    detection_rate: Rate  # of planted defects
    false_alarm_rate: Rate  # of windows without a planted defect
    right_cause_rate: Rate  # of defects found row by row, and of differences that existed before
    by_kind: Mapping[str, KindRates] = field(default_factory=dict)
    refused: int = 0  # rows found by a NOT_COMPARABLE, not in `right_cause_rate`
    not_compared: int = 0  # other changed rows, in windows that are not compared; in no rate
    drawn_in: int = 0  # rows that differed before and are compared together with a planted one; in no rate


def list_uncounted(error_rates: ErrorRates) -> tuple[tuple[int, str], ...]:
    """Return the numbers of rows that are not in all rates, each with the reason."""
    return (
        (
            error_rates.refused,
            "rows found by a refusal to compare that names their defect: found, but not named row by row",
        ),
        (
            error_rates.not_compared,
            "other changed rows: their windows are not compared, or they differed before",
        ),
        (error_rates.drawn_in, "rows that differed before and are judged together with planted ones"),
    )
