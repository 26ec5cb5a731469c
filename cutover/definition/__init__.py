"""What is computed: one typed, frozen definition, compiled to the streaming path, the batch path and the reference."""

from cutover.definition.bag import Bag
from cutover.definition.counted import Quantile, TopK
from cutover.definition.distinct import ApproxDistinct
from cutover.definition.joins import Join, SelfJoin
from cutover.definition.lateness import Lateness
from cutover.definition.lookups import Lookup
from cutover.definition.measures import Avg, Count, Max, Min, Sum
from cutover.definition.pipeline import Expect, Pipeline, Policy, SameDefinition, Sql, Topic
from cutover.definition.places import First, Last
from cutover.definition.spread import Stddev, Variance
from cutover.definition.triggers import (
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
from cutover.definition.windows import Daily, Fixed, Global, Sessions, Sliding

__all__ = [
    "Accumulation",
    "AfterCount",
    "AfterDelay",
    "ApproxDistinct",
    "AtWatermark",
    "Avg",
    "Bag",
    "Count",
    "Daily",
    "EachEpoch",
    "Every",
    "Expect",
    "First",
    "Fixed",
    "Global",
    "Join",
    "Last",
    "Lateness",
    "Lookup",
    "Max",
    "Min",
    "Pipeline",
    "Policy",
    "Quantile",
    "Repeat",
    "RepeatUntil",
    "SameDefinition",
    "SelfJoin",
    "Sequence",
    "Sessions",
    "Sliding",
    "Sql",
    "Stddev",
    "Sum",
    "TopK",
    "Topic",
    "Until",
    "Variance",
]
