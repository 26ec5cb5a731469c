"""Spark confs that the settings may hold, and those checked in a running session."""

import pytest

from cutover.engine.effective_settings import PINNED, find_rejected_conf, select_relevant_confs


@pytest.mark.parametrize("key", sorted(PINNED))
def test_a_pinned_conf_may_be_repeated_but_not_changed(key: str) -> None:
    assert find_rejected_conf({key: PINNED[key]}) is None
    assert find_rejected_conf({key: "something else"}) == (key, f"`{key}` = `{PINNED[key]}`")


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.legacy.parseNullPartitionSpecAsStringLiteral",
        "spark.sql.json.useUnsafeRow",
        "spark.sql.optimizer.excludedRules",
        "spark.sql.files.ignoreCorruptFile",
        "spark.sql.made.up",
        "spark.sql.shuffle",
    ],
)
def test_a_conf_not_known_to_be_harmless_is_rejected(key: str) -> None:
    assert find_rejected_conf({key: "true"}) == (key, "confs of Spark SQL that change no result")


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.shuffle.partitions",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.catalog.other",
        "spark.executor.memory",
        "spark.kubernetes.namespace",
        "spark.driver.extraJavaOptions",
    ],
)
def test_width_memory_and_places_pass(key: str) -> None:
    assert find_rejected_conf({key: "12"}) is None


def test_confs_from_other_sources_are_checked_unless_harmless() -> None:
    unknown = {"spark.sql.made.up": "1", "spark.sql.extensions": "a.B", "spark.databricks.delta.made.up": "2"}
    harmless = {"spark.sql.shuffle.partitions": "3", "spark.executor.memory": "4g", "spark.sql.streaming.x": "y"}

    assert select_relevant_confs({**PINNED, **unknown, **harmless}) == {**PINNED, **unknown}
