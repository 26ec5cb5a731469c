"""Results of trials added up, over all and by kind of plant."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cutover.reconcile.result.error_rates import KindRates
from cutover.reconcile.result.rates import Rate, rate
from cutover.reconcile.selftest.trial_result import PlantResult, TrialResult


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCounts:
    """Of one kind of plant, or of all together."""

    planted: int = 0
    found: int = 0
    named: int = 0
    refused: int = 0
    unjudged: int = 0
    clean_windows: int = 0
    false_alarms: int = 0

    def plus(self, plant: PlantResult) -> "KindCounts":
        """Add one plant."""
        return replace(
            self,
            planted=self.planted + plant.planted,
            found=self.found + plant.found,
            named=self.named + plant.named,
            refused=self.refused + plant.refused,
            unjudged=self.unjudged + plant.unjudged,
        )

    def beside(self, result: TrialResult) -> "KindCounts":
        """Add the clean windows of a comparison."""
        return replace(
            self,
            clean_windows=self.clean_windows + result.clean_windows,
            false_alarms=self.false_alarms + result.false_alarms,
        )

    @property
    def rates(self) -> KindRates:
        """Return the shares with their bounds."""
        return KindRates(
            detection_rate=rate(self.found, self.planted),
            false_alarm_rate=rate(self.false_alarms, self.clean_windows),
            right_cause_rate=rate(self.named, self.found - self.refused),
            refused=self.refused,
            unjudged=self.unjudged,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What all trials came to."""

    detection_rate: Rate
    false_alarm_rate: Rate
    right_cause_rate: Rate
    by_kind: Mapping[str, KindRates]
    refused: int
    unjudged: int
    drawn_in: int


def add_up(results: Sequence[TrialResult]) -> Totals:
    """Return the rates of all comparisons; a clean window counts once for each kind that was planted beside it."""
    kinds: dict[str, KindCounts] = defaultdict(KindCounts)
    every = KindCounts()
    for result in results:
        every = every.beside(result)
        for plant in result.plants:
            every, kinds[plant.kind] = every.plus(plant), kinds[plant.kind].plus(plant)
        for kind in {plant.kind for plant in result.plants}:
            kinds[kind] = kinds[kind].beside(result)
    kept, right = sum(result.kept for result in results), sum(result.kept_right for result in results)
    whole = every.rates
    return Totals(
        detection_rate=whole.detection_rate,
        false_alarm_rate=whole.false_alarm_rate,
        right_cause_rate=rate(every.named + right, every.found - every.refused + kept),
        by_kind={kind: counts.rates for kind, counts in sorted(kinds.items())},
        refused=every.refused,
        unjudged=every.unjudged,
        drawn_in=sum(result.drawn_in for result in results),
    )
