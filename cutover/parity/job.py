"""Check of a file of a job: of a Spark job in Python, or of a SQL script.

The statements of a job in Python are interpreted, and each query is checked by its own lineage. Of a script, the
expressions, the time zone and the appends are checked; statements that are not analyzed are listed.
"""

import ast
import re

from sqlglot import exp

from cutover.definition.expressions.statements import parse_statements
from cutover.errors import DefinitionError
from cutover.parity import sql
from cutover.parity.jobs.functions import FunctionCalls
from cutover.parity.jobs.interpreter import Interpreter, TooLargeError
from cutover.parity.jobs.queries import list_query_findings
from cutover.parity.jobs.sqltext import follow_statements
from cutover.parity.jobs.trace import Trace, list_display_statements
from cutover.parity.purity import is_pure
from cutover.parity.rules import Construct, ParityFinding

CELL_MAGIC = re.compile(r"#\s*MAGIC\s+%(\w+)")
SKIPPED_CELLS = frozenset({"md", "pip", "conda", "python"})
"""Magic commands of notebook cells that compute no rows, or whose cell is Python."""


def list_foreign_cells(source: str) -> list[tuple[int, str]]:
    """Return the line and the magic command of each notebook cell in another language or file."""
    cells = [(line, CELL_MAGIC.match(text)) for line, text in enumerate(source.splitlines(), 1)]
    return [(line, cell[1]) for line, cell in cells if cell is not None and cell[1] not in SKIPPED_CELLS]


def check_job(source: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of a job on which stream and batch differ, by line.

    Code that cannot be analyzed is reported as `not-understood`: functions of other modules that take a DataFrame,
    options and SQL that another file builds, RDDs, functions with user-managed state.

    Args:
        source: Text of a Python file.
        file: Name of the file in findings.

    Raises:
        DefinitionError: The source is not valid Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        msg = f"{file}: expected Python, got: {error}"
        raise DefinitionError(msg) from None
    trace = Trace(display_statements=list_display_statements(tree))
    for line, command in list_foreign_cells(source):
        trace.add_gap(line, f"%{command}: a cell that is not Python")
    try:
        Interpreter(trace).follow_module(tree)
    except (TooLargeError, RecursionError) as error:
        line = error.line if isinstance(error, TooLargeError) else 1
        trace.add_gap(line, "the rest of the file: it has more paths than are analyzed")
    functions = FunctionCalls(tree)
    sql_findings = {item for item in trace.sql_findings if not (trace.has_time_zone and item[1] is Construct.TIME_ZONE)}
    sql_findings |= {
        (line, Construct.NOT_UNDERSTOOD, f"{name}: a SQL function that is not built into Spark")
        for line, name in trace.sql_functions
        if name not in trace.registered_functions
    }
    findings = {
        *trace.findings,
        *sql_findings,
        *list_query_findings(trace),
        *functions.list_findings(trace),
    }
    if trace.operation_count == 0 and not findings and functions.count_spark_calls() == 0:
        line, name = min((call for call in trace.external_calls if not is_pure(call[1])), default=(1, ""))
        message = f"{name} is not analyzed, and nothing" if name else "nothing"
        subject = f"the whole file: {message} in it reads, changes or writes a DataFrame"
        findings.add((line, Construct.NOT_UNDERSTOOD, subject))
    return tuple(
        sorted(
            ParityFinding(file=file, line=line, construct=construct, subject=subject)
            for line, construct, subject in findings
        )
    )


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
