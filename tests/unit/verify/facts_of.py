"""Facts of a small consistent stream, except for the changes that a test makes."""

from collections.abc import Iterable

from cutover.definition import Count, Fixed, Lateness, Pipeline, Sum, Topic
from cutover.reconcile.verify.facts.facts import EpochCommit, LogCounts, RowTotals, VerifyFacts, Violation
from tests.unit.verify.epochs import MINUTE, chain_of

PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="id bigint NOT NULL, k string, at timestamp NOT NULL", event_time="at"),
    key=("k",),
    window=Fixed(minutes=10),
    measures={"clicks": Count(), "ids": Sum("id")},
    lateness=Lateness(out_of_orderness="5 minutes", allowed="0 seconds", max_ahead="1 hour"),
)


def facts(**changes: object) -> VerifyFacts:
    """Build the facts of three consistent epochs, except for the changes."""
    records = tuple(chain_of(3))
    values: dict[str, object] = {
        "stream": "clicks",
        "pipeline": PIPELINE,
        "records": records,
        "transaction": 2,
        "table_version": 3,
        "commits": (
            EpochCommit(version=0, operation="CREATE TABLE", mark=None),
            *(EpochCommit(version=r.epoch + 1, operation="WRITE", mark=r.to_json()) for r in records),
        ),
        "books": RowTotals(pairs={(n, "accepted"): 10 for n in range(3)}, positions={}),
        "log": LogCounts(
            records={(n, p): 5 for n in range(3) for p in range(2)},
            newest={n: (n + 7) * MINUTE for n in range(3)},
            is_complete=True,
        ),
        "reopened": (),
        "repeated": (),
    }
    return VerifyFacts(**{**values, **changes})  # type: ignore[arg-type]  # changes are named by the tests


def texts(violations: Iterable[Violation]) -> str:
    return "\n".join(violation.text for violation in violations)
