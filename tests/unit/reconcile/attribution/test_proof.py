"""Source of proofs: the given log, and only if it is the log that was read."""

from collections.abc import Iterator
from unittest.mock import Mock

import duckdb
import pytest

from cutover.definition import Count, Fixed, Pipeline, Topic
from cutover.pipeline_lake import PipelineLake
from cutover.reconcile.attribution import proof
from cutover.reconcile.attribution.proof import UNPROVEN, Proof
from cutover.reconcile.comparison.layout import Layout, SharedTable, make_default_comparison, stage
from cutover.settings import Settings
from tests.support.log.held_log import HeldLog

PIPELINE = Pipeline(
    name="clicks",
    source=Topic(name="clicks", schema="who string, at timestamp NOT NULL", event_time="at"),
    key=("who",),
    window=Fixed(hours=1),
    measures={"clicks": Count()},
)
READ = Mock(topic="clicks", topic_id="topic-1", cluster_id="cluster-1")
LAYOUT = Layout(
    keys=("window_start", "who"),
    values=(make_default_comparison("clicks", "BIGINT"),),
    group="window_start",
    wide=frozenset(),
)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a comparison in which the sides differ in one row."""
    with duckdb.connect() as opened:
        row = "make_timestamptz(0) AS window_start, make_timestamptz(3600000000) AS window_end, 'a' AS who"
        for table, clicks in ((stage(0), 1), (SharedTable.EXPECTED, 2)):
            opened.execute(f"CREATE TEMP TABLE {table} AS SELECT {row}, {clicks} AS clicks, {clicks} AS _n")
        opened.execute(f"CREATE TEMP TABLE {SharedTable.DOUBTFUL} (window_start TIMESTAMPTZ, who VARCHAR, why VARCHAR)")
        yield opened


def check(settings: Settings, connection: duckdb.DuckDBPyConnection, log: HeldLog | None) -> str:
    """Check a log of one row, and return why it proves nothing."""
    proof = Proof(lake=PipelineLake(settings, PIPELINE), evidence=Mock(run=READ), log=log)
    sides = Mock(connection=connection, layout=LAYOUT, merged=(), has_twin_tables=False)

    (note,) = proof.check(sides, f"SELECT window_start, who FROM {SharedTable.EXPECTED}")  # noqa: S608 -- ours

    assert note.endswith("0 contradicted, 1 can no longer be proven.")
    assert connection.execute(f"SELECT who FROM {UNPROVEN}").fetchall() == [("a",)]  # noqa: S608 -- ours
    assert proof.breach is not None
    return proof.breach.message


@pytest.mark.parametrize("other", [{"topic_id": "topic-2"}, {"cluster_id": "cluster-2"}])
def test_another_log_of_the_same_name_proves_nothing(
    settings: Settings, connection: duckdb.DuckDBPyConnection, other: dict[str, str]
) -> None:
    message = check(settings, connection, HeldLog(records=(), **other))  # type: ignore[arg-type]  # the ids alone

    assert "topic `clicks` was recreated and is a different log" in message


def test_a_proof_uses_the_configured_cluster_by_default(
    settings: Settings, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = {settings.kafka.bootstrap_servers: HeldLog(records=(), cluster_id="elsewhere")}
    monkeypatch.setattr(
        proof, "LogClient", lambda requested_settings: clusters[requested_settings.kafka.bootstrap_servers]
    )

    assert "topic `clicks` was recreated and is a different log" in check(settings, connection, None)
