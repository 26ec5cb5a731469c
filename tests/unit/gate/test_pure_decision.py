"""Modules behind the decision of the gate: few, and none that reads a table or a log."""

import grimp

DECISION = "cutover.reconcile.gate.decide"
READERS = {"airflow", "confluent_kafka", "deltalake", "duckdb", "pyarrow", "pyspark", "typer"}
MOST = 24


def test_the_decision_on_a_move_needs_few_modules_and_none_that_reads() -> None:
    graph = grimp.build_graph(
        "cutover", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )
    modules = graph.find_upstream_modules(DECISION)

    assert modules & READERS == set()
    assert len([name for name in modules if name.startswith("cutover.")]) <= MOST
