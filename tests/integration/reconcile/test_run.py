"""Verdicts on tables of a real lake: clean, late, and with differences planted."""

from cutover.settings import Settings
from reconcile.result import Reconciliation, Verdict
from reconcile.run import reconcile
from tests.integration.reconcile.lake_of import PIPELINE, Lake, Sale, lake_of, write

CLEAN = tuple(
    Sale(epoch=i % 3, hour=i % 7, shop=("a", "b", None)[i % 3], desk=(1, None)[i % 2], amount=i) for i in range(60)
)


def run(settings: Settings, lake: Lake) -> Reconciliation:
    write(settings, lake)
    return reconcile(settings, PIPELINE)


def test_equal_sides_are_consistent(settings: Settings) -> None:
    result = run(settings, lake_of(CLEAN))

    assert (result.verdict, result.exit_code) == (Verdict.CONSISTENT, 0)


def test_late_records_explain_every_difference(settings: Settings) -> None:
    late = (Sale(epoch=2, hour=1, amount=1000, kind="late"), Sale(epoch=2, hour=1, amount=-5, kind="late"))
    result = run(settings, lake_of((*CLEAN, *late)))

    assert (result.verdict, result.causes["late"].events, result.causes["unexplained"].rows) == (
        Verdict.EXPLAINED,
        2,
        0,
    )
