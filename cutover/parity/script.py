"""Check of a SQL file: its expressions, time zone and appends, and the statements that are not analyzed."""

from sqlglot import exp

from cutover.definition.expressions.statements import parse_statements
from cutover.parity import sql
from cutover.parity.jobs.queries import list_query_findings
from cutover.parity.jobs.sqltext import follow_statements
from cutover.parity.jobs.trace import Trace
from cutover.parity.rules import Construct, ParityFinding

TIME_ZONE_SETTING = "spark.sql.session.timezone"


def check_script(text: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of a SQL file on which stream and batch differ, in order.

    Raises:
        DefinitionError: The text is not valid Spark SQL.
    """
    findings = {*sql.check_sql(text, file)}
    trace, lines = Trace(), text.splitlines()
    has_time_zone = False
    for statement in parse_statements(text):
        description = statement.sql(dialect="spark")
        has_time_zone = (
            has_time_zone
            or (isinstance(statement, exp.Set) and TIME_ZONE_SETTING in description.lower())
            or "SET TIME ZONE" in description.upper()
        )
        follow_statements(trace, description, _find_line(statement, lines))
    job_findings = {*trace.findings, *list_query_findings(trace)}
    job_findings |= {
        (line, Construct.NOT_UNDERSTOOD, f"{name}: a function that is not built into Spark")
        for line, name in sql.list_unknown_functions(text)
    }
    if not trace.operation_count and not job_findings and not findings:
        job_findings.add((1, Construct.NOT_UNDERSTOOD, "the whole file: it has no statement"))
    findings |= {
        ParityFinding(file=file, line=line, construct=construct, subject=subject)
        for line, construct, subject in job_findings
    }
    if has_time_zone:
        findings = {finding for finding in findings if finding.construct is not Construct.TIME_ZONE}
    return tuple(sorted(findings))


def _find_line(statement: exp.Expr, lines: list[str]) -> int:
    """Return the line of the first name in a statement."""
    lines_of_nodes = [int(node.meta["line"]) for node in statement.walk() if "line" in node.meta]
    return min(lines_of_nodes, default=1) if lines else 1
