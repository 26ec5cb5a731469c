"""A Spark job in Python: what it does to each DataFrame is followed, and each query is judged by its own lineage."""

import ast
import re

from cutover.errors import DefinitionError
from cutover.parity.jobs.functions import FunctionCalls
from cutover.parity.jobs.interpreter import Interpreter, TooLargeError
from cutover.parity.jobs.queries import judge_queries
from cutover.parity.jobs.trace import Trace
from cutover.parity.purity import is_pure
from cutover.parity.rules import Construct, ParityFinding

CELL = re.compile(r"#\s*MAGIC\s+%(\w+)")
ASIDE = frozenset({"md", "pip", "conda", "python"})
"""Cells of a notebook that compute no rows, or that are read as Python."""


def list_cells(source: str) -> list[tuple[int, str]]:
    """Return the line and the command of each cell of a notebook that another language, or another file, is in."""
    cells = [(line, CELL.match(text)) for line, text in enumerate(source.splitlines(), 1)]
    return [(line, cell[1]) for line, cell in cells if cell is not None and cell[1] not in ASIDE]


def check_job(source: str, file: str) -> tuple[ParityFinding, ...]:
    """Return the constructs of a job on which stream and batch cannot agree, by line.

    What cannot be followed is named as `not-understood`: functions of other modules that take a DataFrame, options and
    SQL that are put together elsewhere, RDDs, functions that keep state of their own.

    Args:
        source: Of a Python file.
        file: As findings name it.

    Raises:
        DefinitionError: It is no Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        msg = f"{file}: expected Python, got: {error}"
        raise DefinitionError(msg) from None
    trace = Trace()
    for line, command in list_cells(source):
        trace.add_gap(line, f"%{command}: a cell that is not of Python")
    try:
        Interpreter(trace).follow_module(tree)
    except (TooLargeError, RecursionError) as error:
        line = error.line if isinstance(error, TooLargeError) else 1
        trace.add_gap(line, "what comes behind: the file has more paths than are followed")
    functions = FunctionCalls(tree)
    texts = {item for item in trace.sql if not (trace.zone and item[1] is Construct.TIME_ZONE)}
    texts |= {
        (line, Construct.NOT_UNDERSTOOD, f"{name}: a function of SQL that is not Spark's own")
        for line, name in trace.called
        if name not in trace.registered
    }
    found = {*trace.found, *texts, *judge_queries(trace), *functions.find(has_zone=trace.zone)}
    if trace.steps == 0 and not found and functions.count() == 0:
        line, name = min((call for call in trace.outside if not is_pure(call[1])), default=(1, ""))
        message = f"{name} is not followed, and nothing" if name else "nothing"
        subject = f"the whole file: {message} in it reads, changes or writes a DataFrame"
        found.add((line, Construct.NOT_UNDERSTOOD, subject))
    return tuple(
        sorted(
            ParityFinding(file=file, line=line, construct=construct, what=subject) for line, construct, subject in found
        )
    )
