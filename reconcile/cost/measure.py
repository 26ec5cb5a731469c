"""The records that the cost of both paths is folded from, as the lake holds them."""

from collections.abc import Mapping
from typing import Any

from cutover.errors import DefinitionError, LakeError
from cutover.lake import batch_runs
from cutover.lake.control import versions
from cutover.lake.epochs.epoch_log import EpochLog
from cutover.lake.tables import delta
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution.causes import UNEXPLAINED
from cutover.reconcile.cost.fold import fold
from cutover.reconcile.result.codec import decode_tree
from cutover.reconcile.result.cost import Agreement, PathCosts
from cutover.reconcile.result.parts import AgreementPoint
from cutover.reconcile.result.report import ComparisonOutcome
from cutover.reconcile.verdict import history


def measure_costs(lake: PipelineLake, agreement: Agreement | None) -> PathCosts:
    """Return the cost of both paths under the definition in force.

    Raises:
        DefinitionError: No epoch was committed under it yet.
        LakeError: A table cannot be read.
    """
    version = versions.find_current_version(lake)
    epochs = EpochLog(version.uri).records() if version is not None and delta.exists(version.uri) else []
    if not epochs:
        msg = f"Cost of `{lake.name}`: expected an epoch under the definition in force, found none."
        raise DefinitionError(msg + f"\nHint: `cutover stream {lake.name} --drain` makes one.")
    return fold(epochs, batch_runs.read_effective_runs(lake), agreement)


def find_agreement(lake: PipelineLake) -> Agreement | None:
    """Return the agreement of the current comparison of a pipeline; None if nothing was compared."""
    comparison = history.find_current_comparison(lake)
    return None if comparison is None or not comparison.is_comparable else parse_agreement(comparison.result)


def measure_if_readable(lake: PipelineLake, outcome: ComparisonOutcome) -> PathCosts | None:
    """Return the cost shown with a comparison; None if no epoch can be read: the comparison itself says why."""
    try:
        return measure_costs(lake, _find_agreement(outcome))
    except (DefinitionError, LakeError):
        return None


def measure_present(lake: PipelineLake) -> PathCosts | None:
    """Return the cost shown with the current comparison of a pipeline; None if no epoch can be read."""
    try:
        return measure_costs(lake, find_agreement(lake))
    except (DefinitionError, LakeError):
        return None


def _find_agreement(outcome: ComparisonOutcome) -> Agreement | None:
    rows, settlement = outcome.finding.rows, outcome.settlement
    if not rows.compared:
        return None
    return Agreement(
        rows=rows.compared,
        different=rows.missing + rows.extra + rows.changed,
        unexplained=outcome.finding.causes[UNEXPLAINED].rows,
        is_replay=False if settlement is None else settlement.is_replay,
        by_age=() if settlement is None else settlement.agreement,
    )


def parse_agreement(result: Mapping[str, Any]) -> Agreement | None:
    """Return the agreement in the published object of a comparison; None where it compared no row."""
    rows, settlement = result.get("rows", {}), result.get("settlement") or {}
    unexplained = result.get("causes", {}).get(UNEXPLAINED, {}).get("rows", 0)
    if not rows.get("compared"):
        return None
    return Agreement(
        rows=rows["compared"],
        different=sum(rows.get(kind, 0) for kind in ("missing", "extra", "changed")),
        unexplained=unexplained,
        is_replay=settlement.get("is_replay", False),
        by_age=tuple(decode_tree(AgreementPoint, point) for point in settlement.get("agreement", [])),
    )
