"""A Spark job's plan, looked at before it runs: `plan.check(df)` in the job itself, or what `explain` printed."""

from typing import TYPE_CHECKING

from cutover.parity.plans.json_form import read_json
from cutover.parity.plans.judgement import Found, judge
from cutover.parity.plans.live import has_zone, read_live
from cutover.parity.plans.printed import read_printed
from cutover.parity.rules import ParityFinding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame


def check(frame: "DataFrame", name: str = "plan") -> tuple[ParityFinding, ...]:
    """Return on what a stream and a batch of a DataFrame cannot agree; nothing of it runs.

    Read is the analysed plan, as Spark holds it: with types, with what Spark knows not to be deterministic, and with
    the code of Python's functions. What happens behind the DataFrame is not in it: output mode, checkpoint, sink.

    Args:
        frame: Of a Spark in this process, a stream or not.
        name: As findings call it; their line is the operator's number in the plan, from the top.

    Raises:
        DefinitionError: It is no such DataFrame.
    """
    return _collect(judge(read_live(frame), has_zone=has_zone(frame)), name)


def check_text(text: str, file: str) -> tuple[ParityFinding, ...]:
    """Return on what a stream and a batch of a plan cannot agree.

    Args:
        text: What `df.explain("extended")` or `df.explain("formatted")` prints, or `queryExecution.logical.toJSON`.
        file: As findings name it.

    Raises:
        DefinitionError: It is no plan, has too little of it, or was cut short by Spark.
    """
    nodes = read_json(text, file) if text.lstrip().startswith(("[", "{")) else read_printed(text, file)
    return _collect(judge(nodes, has_zone=False), file)


def _collect(found: "Iterable[Found]", file: str) -> tuple[ParityFinding, ...]:
    """Return each finding once: of an operator in two halves, as physical plans have them, the first."""
    first: dict[tuple[object, str], ParityFinding] = {}
    for line, construct, subject in found:
        first.setdefault((construct, subject), ParityFinding(file=file, line=line, construct=construct, what=subject))
    return tuple(sorted(first.values()))
