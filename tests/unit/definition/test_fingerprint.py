"""Fingerprints of results, lateness, panes and batch SQL, and the changes that affect each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutover.definition import (
    Accumulation,
    AtWatermark,
    Count,
    EachEpoch,
    Expect,
    Fixed,
    Lateness,
    Lookup,
    Max,
    Min,
    Pipeline,
    Policy,
    Quantile,
    Repeat,
    Sql,
    Topic,
    Variance,
)
from cutover.definition.compile.fingerprint import (
    batch_fingerprint,
    lateness_fingerprint,
    panes_fingerprint,
    result_fingerprint,
)

TOPIC = Topic(name="t", schema="at timestamp, k string, v int", event_time="at")
PIPELINE = Pipeline(name="p", source=TOPIC, key=("k",), window=Fixed(hours=1), measures={"m": Max("v")})
ADS = Lookup(table="ads", on={"k": "id"}, columns={"a": "int", "b": "string"})

OTHER_TRUTH: dict[str, dict[str, Any]] = {
    "topic": {"source": replace(TOPIC, name="u")},
    "record id": {"source": replace(TOPIC, record_id="v")},
    "horizon of ids": {"source": replace(TOPIC, record_id="v", id_horizon="1 hour")},
    "schema": {"source": replace(TOPIC, schema="at timestamp, k string, v bigint")},
    "not null": {"source": replace(TOPIC, schema="at timestamp, k string, v int NOT NULL")},
    "time format": {"source": replace(TOPIC, time_format="millis")},
    "form of parsing": {"source": replace(TOPIC, parse="from_json")},
    "largest value": {"source": replace(TOPIC, max_value_bytes=5)},
    "isolation": {"source": replace(TOPIC, isolation="read_uncommitted")},
    "where": {"where": "v > 0"},
    "derive": {"derive": {"w": "v"}},
    "lookup": {"lookups": {"ads": ADS}},
    "key": {"key": ("k", "v")},
    "window": {"window": Fixed(hours=2)},
    "another measure": {"measures": {"m": Min("v")}},
    "another kind of measure": {"measures": {"m": Variance("v")}},
    "another name of a measure": {"measures": {"n": Max("v")}},
    "max ahead": {"lateness": Lateness(max_ahead="2 hours")},
}
SAME_TRUTH: dict[str, dict[str, Any]] = {
    "name": {"name": "q"},
    "blanks in the schema": {"source": replace(TOPIC, schema=" at  timestamp,k string , v integer")},
    "log time": {"source": replace(TOPIC, log_time="at")},
    "lateness": {"lateness": Lateness(out_of_orderness="1 hour", allowed="1 hour", idle_after="2 hours")},
    "trigger": {"trigger": Repeat(EachEpoch())},
    "accumulation": {"accumulation": Accumulation.RETRACTING},
    "changelog": {"changelog": "p-panes"},
    "policy": {"policy": Policy(runs=1)},
    "contract": {"contract": (Expect(type="t", arguments={}),)},
    "epoch size": {"max_rows_per_epoch": 7},
    "the same duration": {"lateness": Lateness(max_ahead="60 minutes")},
}


@pytest.mark.parametrize("change", OTHER_TRUTH)
def test_a_change_of_the_result_changes_the_result_fingerprint(change: str) -> None:
    assert result_fingerprint(PIPELINE) != result_fingerprint(replace(PIPELINE, **OTHER_TRUTH[change]))


@pytest.mark.parametrize("change", SAME_TRUTH)
def test_any_other_change_keeps_the_result_fingerprint(change: str) -> None:
    assert result_fingerprint(PIPELINE) == result_fingerprint(replace(PIPELINE, **SAME_TRUTH[change]))


def test_fingerprints_are_stable_across_releases() -> None:
    plain = replace(PIPELINE, measures={"n": Count()})

    assert (result_fingerprint(plain), lateness_fingerprint(plain)) == ("793e0df84d08", "cfeec8dce598")
    assert result_fingerprint(PIPELINE) == "1b956e80de14"


@pytest.mark.parametrize("other", [Quantile("v", 0.9), Quantile("v", 0.5, error=0.02)])
def test_each_parameter_of_a_measure_changes_the_result_fingerprint(other: Quantile) -> None:
    plain = replace(PIPELINE, measures={"m": Quantile("v", 0.5)})

    assert result_fingerprint(plain) != result_fingerprint(replace(plain, measures={"m": other}))


def test_lateness_has_a_fingerprint_of_its_own() -> None:
    other = replace(PIPELINE, lateness=Lateness(allowed="1 hour"))

    assert lateness_fingerprint(PIPELINE) != lateness_fingerprint(other)


def test_batch_fingerprint_is_of_the_sql_files_content(tmp_path: Path) -> None:
    pipeline = replace(PIPELINE, batch=Sql("a.sql"), file=tmp_path / "p.py")
    (tmp_path / "a.sql").write_text("SELECT 1", encoding="utf-8")
    fingerprint_before = batch_fingerprint(pipeline)
    (tmp_path / "a.sql").write_text("SELECT 2", encoding="utf-8")

    assert batch_fingerprint(PIPELINE) == "same"
    assert fingerprint_before != batch_fingerprint(pipeline)


def test_a_pipeline_without_a_trigger_has_no_fingerprint_of_panes() -> None:
    assert panes_fingerprint(PIPELINE) is None


def test_trigger_and_accumulation_change_the_fingerprint_of_panes() -> None:
    base = replace(PIPELINE, trigger=Repeat(AtWatermark()))
    variants = [
        replace(base, trigger=AtWatermark()),
        replace(base, trigger=AtWatermark(late=EachEpoch())),
        replace(base, accumulation=Accumulation.RETRACTING),
    ]

    assert len({panes_fingerprint(pipeline) for pipeline in (base, *variants)}) == 4


def test_trigger_does_not_change_which_rows_are_late() -> None:
    assert lateness_fingerprint(PIPELINE) == lateness_fingerprint(replace(PIPELINE, trigger=EachEpoch()))


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"columns": {"b": "string", "a": "integer"}}, True),
        ({"table": "adverts"}, False),
        ({"on": {"k": "key"}}, False),
        ({"columns": {"a": "bigint", "b": "string"}}, False),
    ],
)
def test_table_columns_and_keys_of_a_lookup_are_in_the_result_fingerprint(
    changes: dict[str, Any], *, is_same: bool
) -> None:
    original, modified = (replace(PIPELINE, lookups={"ads": lookup}) for lookup in (ADS, replace(ADS, **changes)))

    assert (result_fingerprint(original) == result_fingerprint(modified)) is is_same
