"""A run that begins anew: it builds on nothing, and what somebody changed in the table is no more."""

import pytest
from deltalake import DeltaTable

from cutover.batch.recompute import run
from cutover.errors import LakeError
from cutover.lake.paths import batch_uri
from tests.integration.batch.lab import Lab, hours

ROWS = ((0, 10, "AA", 5), (1, 20, "UA", 7), (1, 3_700, "AA", 1), (0, 7_300, "AA", 2))


def test_a_table_that_somebody_changed_is_refused_until_a_run_begins_anew(lab: Lab) -> None:
    lab.send(*ROWS)
    lab.commit_epoch(watermark=7_200)
    first = run(lab.settings, lab.pipeline)
    DeltaTable(batch_uri(lab.settings, lab.pipeline)).update({"_n": "_n + 1"})
    lab.commit_epoch(watermark=10_800)

    with pytest.raises(LakeError, match=r"UPDATE by .*\n.*--anew` computes everything"):
        run(lab.settings, lab.pipeline)
    again = run(lab.settings, lab.pipeline, anew=True)
    after = run(lab.settings, lab.pipeline)

    assert first is not None
    assert again is not None
    assert after is not None
    assert (again.anew, again.scanned, hours(again.computed)) == (True, {0: (0, 2), 1: (0, 2)}, [(0, 3)])
    expected = [(0, "AA", 1, 1), (0, "UA", 1, 1), (1, "AA", 1, 1), (2, "AA", 1, 1)]
    assert lab.table(again, "carrier", "flights", "_n") == expected
    assert (after.scanned, after.computed, after.batch_version) == ({}, (), again.batch_version)
