"""An epoch log in its smallest shape, and the records of its first two epochs."""

from dataclasses import replace

import pyarrow as pa

from cutover.lake.epochs.epoch_log import EpochRecord
from cutover.lake.tables.schemas import make_arrow_schema

SCHEMA = make_arrow_schema({"_kind": pa.string(), "_epoch": pa.int64(), "_record": pa.string()})
FIRST = EpochRecord(
    epoch=0,
    run_id="pid-1-one",
    topic="t",
    topic_id="A",
    cluster_id="C",
    start={0: 0},
    end={0: 10},
    max_event={},
    watermark_before=None,
    watermark_after=None,
)
SECOND = replace(FIRST, epoch=1, start={0: 10}, end={0: 20})
