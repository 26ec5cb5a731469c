"""Comparisons as Prometheus reads them: one sample a figure, labels of a bounded number.

Source: Prometheus documentation, exposition formats, and its naming conventions (base units, `_total` for counters).
"""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from cutover.reconcile.result import text
from cutover.reconcile.result.cost import PathCosts
from cutover.reconcile.result.finding import Verdict
from cutover.reconcile.result.report import Report


def render_prometheus(reports: Iterable[Report]) -> str:
    """Return the newest comparison of each pipeline in Prometheus' text format.

    Args:
        reports: At most one of a pipeline.
    """
    registry = CollectorRegistry()
    gauges = {
        name: Gauge(f"cutover_reconciliation_{name}", help_text, ["pipeline", *labels], registry=registry)
        for name, (help_text, labels) in _GAUGES.items()
    }
    for result in reports:
        for name, labels, value in _samples(result):
            gauges[name].labels(result.finding.pipeline, *labels).set(value)
    return generate_latest(registry).decode()


_GAUGES: Mapping[str, tuple[str, list[str]]] = {
    "verdict": ("1 for the verdict of the newest comparison, 0 for the others", ["verdict"]),
    "timestamp_seconds": ("Time of the comparison, Unix time", []),
    "epoch": ("Epoch of its cut", []),
    "windows": ("Windows by state", ["state"]),
    "rows": ("(window, key) rows by kind", ["kind"]),
    "cause_rows": ("(window, key) rows that a cause takes part in", ["cause"]),
    "late_ratio": ("Late of accepted and late (record, window) pairs", []),
    "within_policy": ("1 where it is within the policy", []),
    "selftest_passed": ("1 where the newest self-test of the reconciler was passed", []),
    "path_core_seconds": ("Processor time that a path has used, of the runs that recorded it", ["path"]),
    "path_written_bytes": ("Size of the data files that a path has added to its tables", ["path"]),
    "selftest_detection_ratio": ("Planted rows that the newest self-test found", []),
}
Sample = tuple[str, tuple[str, ...], float]


def _samples(result: Report) -> Iterable[Sample]:
    created_at, windows, rows = (
        text.parse_iso_time(result.run.repeated_at or result.run.at),
        result.finding.windows,
        result.finding.rows,
    )
    yield from (("verdict", (word.value,), float(word is result.finding.verdict)) for word in Verdict)
    if created_at is not None:
        yield "timestamp_seconds", (), created_at.timestamp()
    if result.finding.seal.epoch is not None:
        yield "epoch", (), float(result.finding.seal.epoch)
    for state in ("compared", "different", "open", "incomplete"):
        yield "windows", (state,), float(getattr(windows, state))
    for kind in ("compared", "missing", "extra", "changed"):
        yield "rows", (kind,), float(getattr(rows, kind))
    yield from (("cause_rows", (name,), float(cause.rows)) for name, cause in result.finding.causes.items())
    if result.finding.verdict is not Verdict.NOT_COMPARABLE:  # nothing was compared, so no share is known
        yield "late_ratio", (), result.finding.policy.late_share
    yield "within_policy", (), float(result.finding.policy.within)
    if result.cost is not None:
        yield from _cost_samples(result.cost)
    if result.self_test is not None:
        tested = result.self_test.detection_rate
        yield "selftest_passed", (), float(result.self_test.passed)
        if tested.of:
            yield "selftest_detection_ratio", (), tested.hits / tested.of


def _cost_samples(costs: PathCosts) -> Iterable[Sample]:
    """Yield no sample of what is not known: a zero would say that it was free."""
    for name, total in (("streaming", costs.streaming), ("batch", costs.batch)):
        if total.core_seconds is not None:
            yield "path_core_seconds", (name,), total.core_seconds
        if total.written_bytes is not None:
            yield "path_written_bytes", (name,), float(total.written_bytes)
