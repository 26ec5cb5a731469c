"""Check of a query plan before it runs: `plan.check_frame(df)` inside a job, or the output of `explain`."""

from typing import TYPE_CHECKING

from cutover.parity.plans.findings import Finding, list_plan_findings
from cutover.parity.plans.live import has_time_zone, read_live
from cutover.parity.plans.printed import parse_plan_json, read_printed
from cutover.parity.rules import ParityFinding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame


def check_frame(frame: "DataFrame", name: str = "plan") -> tuple[ParityFinding, ...]:
    """Return the constructs of a DataFrame's plan on which stream and batch differ; nothing is executed.

    The analyzed plan is read, with types, with Spark's own knowledge of non-deterministic expressions, and with the
    code of Python functions. It does not contain the writer: output mode, checkpoint and sink.

    Args:
        frame: DataFrame of a Spark session in this process, streaming or not.
        name: Name of the plan in findings; their line is the operator's number in the plan, from the top.

    Raises:
        DefinitionError: The value is not such a DataFrame.
    """
    return _collect(list_plan_findings(read_live(frame), has_time_zone=has_time_zone(frame)), name)


def check_text(text: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of a printed plan on which stream and batch differ.

    Args:
        text: Output of `df.explain("extended")` or `df.explain("formatted")`, or `queryExecution.logical.toJSON`.
        file: Name of the file in findings.

    Raises:
        DefinitionError: The text is not a plan, lacks the needed sections, or was truncated by Spark.
    """
    nodes = parse_plan_json(text, file) if text.lstrip().startswith(("[", "{")) else read_printed(text, file)
    return _collect(list_plan_findings(nodes, has_time_zone=False), file)


def _collect(findings: "Iterable[Finding]", file: str) -> tuple[ParityFinding, ...]:
    """Return each finding once; of an operator that a physical plan splits in two, the first half counts."""
    findings_by_subject: dict[tuple[object, str], ParityFinding] = {}
    for line, construct, subject in findings:
        findings_by_subject.setdefault(
            (construct, subject), ParityFinding(file=file, line=line, construct=construct, subject=subject)
        )
    return tuple(sorted(findings_by_subject.values()))
