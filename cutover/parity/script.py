"""A file of SQL: its expressions, the time zone that it sets, what it appends, and statements that are not followed."""

from sqlglot import exp

from cutover.definition.expressions.statements import parse_statements
from cutover.parity import sql
from cutover.parity.jobs.queries import judge_queries
from cutover.parity.jobs.sqltext import follow_statements
from cutover.parity.jobs.trace import Trace
from cutover.parity.rules import Construct, ParityFinding

ZONE = "spark.sql.session.timezone"


def check_script(text: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of a file of SQL on which stream and batch cannot agree, in their order.

    Raises:
        DefinitionError: It is no SQL of Spark.
    """
    findings = {*sql.check_sql(text, file)}
    trace, lines = Trace(), text.splitlines()
    has_zone = False
    for statement in parse_statements(text):
        description = statement.sql(dialect="spark")
        has_zone = (
            has_zone
            or (isinstance(statement, exp.Set) and ZONE in description.lower())
            or "SET TIME ZONE" in description.upper()
        )
        follow_statements(trace, description, _find_line(statement, lines))
    found = {*trace.found, *judge_queries(trace)}
    found |= {
        (line, Construct.NOT_UNDERSTOOD, f"{name}: a function that is not Spark's own")
        for line, name in sql.list_unknown_functions(text)
    }
    if not trace.steps and not found and not findings:
        found.add((1, Construct.NOT_UNDERSTOOD, "the whole file: it has no statement"))
    findings |= {ParityFinding(file=file, line=line, construct=which, what=subject) for line, which, subject in found}
    return tuple(sorted(finding for finding in findings if not (has_zone and finding.construct is Construct.TIME_ZONE)))


def _find_line(statement: exp.Expr, lines: list[str]) -> int:
    """Return the line of the first name in a statement."""
    placed_fields = [int(node.meta["line"]) for node in statement.walk() if "line" in node.meta]
    return min(placed_fields, default=1) if lines else 1
