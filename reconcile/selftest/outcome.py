"""Result of a self-test, as `--json` prints it, and the history in which the newest one of a definition counts."""

from collections.abc import Mapping
from dataclasses import dataclass

from cutover.reconcile.result.parts import ErrorRates, KindRates, Rate

RIGHT_CAUSE = 0.99
CLEAN_WINDOWS = 1_000

RULES = 2
"""By which rows are counted. A self-test that was counted by other rules says nothing under these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """The reconciler's own error rates on one pipeline."""

    pipeline: str
    at: str  # ISO
    seed: int
    trials: int
    result_fingerprint: str
    epoch: int  # of the cut
    detection_rate: Rate  # of what was planted
    false_alarm_rate: Rate  # of windows in which nothing was planted
    right_cause_rate: Rate  # of rows found individually, and of earlier differences that were left unchanged
    by_kind: Mapping[str, KindRates]
    refused: int  # rows found by a refusal to compare that names their plant, not in `right_cause_rate`
    not_compared: int  # rows that plants changed besides, of which no comparison says anything; in no rate
    drawn_in: int  # rows that differed before and are judged together with a planted one; in no rate
    failures: tuple[str, ...]  # some of what went wrong, one sentence each
    seconds: float
    rules: int = RULES

    @property
    def passed(self) -> bool:
        """All was found, nothing else, on enough windows, and nearly all by its name."""
        return (
            self.detection_rate.of > 0
            and self.detection_rate.hits == self.detection_rate.of
            and self.false_alarm_rate.hits == 0
            and self.false_alarm_rate.of >= CLEAN_WINDOWS
            and self.right_cause_rate.of > 0
            and self.right_cause_rate.hits >= RIGHT_CAUSE * self.right_cause_rate.of
        )

    @property
    def rates(self) -> ErrorRates:
        """Return what a report shows of it."""
        return ErrorRates(
            at=self.at,
            seed=self.seed,
            passed=self.passed,
            detection_rate=self.detection_rate,
            false_alarm_rate=self.false_alarm_rate,
            right_cause_rate=self.right_cause_rate,
            by_kind=self.by_kind,
            refused=self.refused,
            not_compared=self.not_compared,
            drawn_in=self.drawn_in,
        )
