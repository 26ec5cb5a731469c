"""Interface of the job interpreter for the modules that evaluate single statements and calls."""

import ast
from collections.abc import Iterable
from typing import Protocol

from cutover.parity.jobs.paths import Activation, Loop
from cutover.parity.jobs.trace import Arguments, Trace
from cutover.parity.jobs.values import Instance, JobClass, JobFunction, JobValue, Scope


class JobAnalysis(Protocol):
    """Analysis in progress: the facts recorded so far, and the operations that interpret functions and classes."""

    trace: Trace
    activations: list[Activation]  # of the active functions, the innermost last
    loops: list[Loop]
    functions: list[JobFunction]  # active functions, the innermost last
    called_nodes: set[ast.AST]
    yielded_values: list[list[JobValue]]  # values that generators yield, one list per active function
    has_star_import: bool

    def count_step(self, node: ast.AST) -> None:
        """Count a step, and stop the analysis at the limit."""

    def run_block(self, body: Iterable[ast.stmt], scope: Scope) -> bool:
        """Interpret statements; return whether the code after them is reachable."""

    def assign(self, scope: Scope, name: str, value: JobValue) -> None:
        """Bind a name in the scope that declares it."""

    def bind_target(self, target: ast.expr, value: JobValue, scope: Scope) -> None:
        """Bind the target of an assignment."""

    def call_function(self, function: JobFunction, arguments: Arguments) -> JobValue:
        """Interpret the body of a function with its arguments bound."""

    def call_value(self, target: JobValue, arguments: Arguments) -> JobValue | None:
        """Call a function, partial or object of the job; None for any other value."""

    def instantiate(self, job_class: JobClass, arguments: Arguments) -> Instance:
        """Make an object of a class by interpreting its `__init__`."""
