"""What is computed: one typed, frozen definition, compiled to the streaming path, the batch path and the reference."""

from cutover.definition.lateness import Lateness
from cutover.definition.measures import Avg, Count, Max, Min, Sum
from cutover.definition.pipeline import Expect, Pipeline, Policy, SameDefinition, Sql, Topic
from cutover.definition.windows import Fixed, Sliding

__all__ = [
    "Avg",
    "Count",
    "Expect",
    "Fixed",
    "Lateness",
    "Max",
    "Min",
    "Pipeline",
    "Policy",
    "SameDefinition",
    "Sliding",
    "Sql",
    "Sum",
    "Topic",
]
