"""Effect of a repair, and the age of the answers that it replaces. No Spark: a lake written by hand."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cutover.batch.repair import draft
from cutover.batch.repair.draft import RepairEffect
from cutover.lake.tables import delta
from cutover.lake.tables.schemas import batch_ledger_schema, batch_schema
from cutover.pipeline_lake import PipelineLake
from cutover.settings import Settings
from tests.integration.reconcile.lake_of import PIPELINE, Lake, Sale, lake_of, micros, write

HOSTILE = ("<script>alert(1)</script>", '"; DROP TABLE x', "new\nline", "\x1b[31m", "null", "", None)
CLOSED = "2026-01-02T00:00:00+00:00"
COMPUTED = "2026-01-05T00:00:00Z"


@pytest.fixture(autouse=True)
def ledger(settings: Settings) -> None:
    delta.ensure(PipelineLake(settings, PIPELINE).batch_uri("batch_ledger"), batch_ledger_schema(PIPELINE))


def compare(settings: Settings, lake: Lake, **changes: Any) -> RepairEffect:
    """Compare the lake's batch rows of hour 0, changed, with what the lake serves."""
    epochs = tuple(replace(epoch, processing_time=CLOSED) for epoch in lake.epochs)
    write(settings, replace(lake, epochs=epochs))
    rows = pa.Table.from_pylist([row | changes for row in lake.batch], schema=batch_schema(PIPELINE))
    return draft.compute_effect(PipelineLake(settings, PIPELINE), rows, [(micros(0), micros(1))])


@pytest.mark.parametrize("computed", [(), ((micros(0), micros(1)),)])
def test_hostile_keys_and_nulls_are_told_apart_and_nothing_differs(settings: Settings, computed: Any) -> None:
    lake = lake_of([Sale(shop=shop, amount=place) for place, shop in enumerate(HOSTILE)])

    repair_effect = compare(settings, replace(lake, run=replace(lake.run, computed=computed)))

    assert repair_effect.counts == {side: {"same": len(HOSTILE)} for side in draft.SIDES}
    assert repair_effect.changes.num_rows == 0
    assert sorted(repair_effect.served["shop"].to_pylist(), key=str) == sorted(HOSTILE, key=str)
    assert repair_effect.served_from == (COMPUTED if computed else CLOSED)


@pytest.mark.quick
def test_a_row_that_the_stream_lacks_is_added_and_one_too_many_is_removed(settings: Settings) -> None:
    late = lake_of([Sale(shop="a"), Sale(shop="b", kind="late")])
    lake = replace(late, run=replace(late.run, computed=()), batch=late.batch[1:])

    repair_effect = compare(settings, lake)

    changes = {row["shop"]: row["_change"] for row in repair_effect.changes.to_pylist()}
    assert changes == {"a": "removed", "b": "added"}
    served = {
        row["shop"]: (row["sales"], row["_change"], row["_served_by"]) for row in repair_effect.served.to_pylist()
    }
    assert served == {"a": (1, "removed", "streaming"), "b": (None, "added", None)}


@pytest.mark.quick
def test_a_changed_value_is_named_beside_the_one_that_is_served(settings: Settings) -> None:
    lake = lake_of([Sale(amount=5)])

    repair_effect = compare(settings, lake, revenue=Decimal(7))

    (change,) = repair_effect.changes.to_pylist()
    revenue = list(PIPELINE.measures).index("revenue")
    assert (change["_change"], change[f"old_{revenue}"], change[f"new_{revenue}"]) == ("changed", 5, 7)
    assert repair_effect.batch_rows["revenue"].to_pylist() == [5]
    assert repair_effect.counts["batch"] == {"changed": 1}


@pytest.mark.quick
def test_answers_are_equal_in_any_order_and_a_null_is_no_empty_text(settings: Settings) -> None:
    lake = lake_of([Sale(shop=""), Sale(shop=None)])
    write(settings, lake)
    served = draft.read_served(PipelineLake(settings, PIPELINE), [(micros(0), micros(1))])
    turned = served.take([1, 0])
    both_null = served.set_column(served.schema.get_field_index("shop"), "shop", pa.array([None, None], pa.string()))

    assert draft.have_equal_rows(PIPELINE, served, turned)
    assert not draft.have_equal_rows(PIPELINE, served, both_null)
    assert not draft.have_equal_rows(PIPELINE, served, served.slice(1))
