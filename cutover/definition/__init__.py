"""Pipeline definitions: typed, frozen values, compiled to the streaming path, the batch path and the reference.

`model` has the parts of a definition, with `windows`, `measures` and `expressions`; `loading` reads them from files,
`checks` validates them, and `compile` derives SQL, types and fingerprints.
"""

from cutover.definition.measures.doubles import Stddev, Variance
from cutover.definition.measures.kinds import (
    ApproxDistinct,
    Avg,
    Bag,
    Count,
    First,
    Last,
    Max,
    Min,
    Quantile,
    Sum,
    TopK,
)
from cutover.definition.model.batch_job import BatchJob, CompactedTopic, Iceberg, Parquet, Postgres
from cutover.definition.model.joins import Join, Lookup, SelfJoin
from cutover.definition.model.pipeline import (
    Change,
    Delta,
    Expect,
    Lateness,
    Pipeline,
    SameDefinition,
    SparkStream,
    Sql,
)
from cutover.definition.model.policy import Audit, Policy
from cutover.definition.model.topic import CsvOptions, JsonField, ProtobufOptions, Topic, read_descriptor_set
from cutover.definition.model.triggers import (
    Accumulation,
    AfterCount,
    AfterDelay,
    AtWatermark,
    EachEpoch,
    Every,
    Repeat,
    RepeatUntil,
    Sequence,
    Until,
)
from cutover.definition.windows.kinds import Daily, Fixed, Global, Monthly, Sessions, Sliding

__all__ = [
    "Accumulation",
    "AfterCount",
    "AfterDelay",
    "ApproxDistinct",
    "AtWatermark",
    "Audit",
    "Avg",
    "Bag",
    "BatchJob",
    "Change",
    "CompactedTopic",
    "Count",
    "CsvOptions",
    "Daily",
    "Delta",
    "EachEpoch",
    "Every",
    "Expect",
    "First",
    "Fixed",
    "Global",
    "Iceberg",
    "Join",
    "JsonField",
    "Last",
    "Lateness",
    "Lookup",
    "Max",
    "Min",
    "Monthly",
    "Parquet",
    "Pipeline",
    "Policy",
    "Postgres",
    "ProtobufOptions",
    "Quantile",
    "Repeat",
    "RepeatUntil",
    "SameDefinition",
    "SelfJoin",
    "Sequence",
    "Sessions",
    "Sliding",
    "SparkStream",
    "Sql",
    "Stddev",
    "Sum",
    "TopK",
    "Topic",
    "Until",
    "Variance",
    "read_descriptor_set",
]
