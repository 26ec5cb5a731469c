"""The pipeline that faults harm: the stream tests' own, with a policy under which no share is too high."""

from dataclasses import replace
from typing import Any

from cutover.definition import Pipeline, Policy
from tests.integration.streaming import rig as small

CAP = 20  # records of an epoch
EASY = Policy(max_late_share=1.0, max_malformed_share=1.0, max_future_share=1.0)


def definition(topic: str, *, policy: Policy = EASY, record_id: str | None = None, **changes: Any) -> Pipeline:
    """Return it; `changes` are arguments of `tests.integration.streaming.rig.pipeline` (cap, lateness)."""
    pipeline = small.pipeline(topic, **({"cap": CAP} | changes))
    return replace(pipeline, policy=policy, source=replace(pipeline.source, record_id=record_id))
