"""The walk through a job, as what is done at each step sees it."""

import ast
from collections.abc import Iterable
from typing import Protocol

from cutover.parity.jobs.paths import Activation, Loop
from cutover.parity.jobs.trace import Arguments, Trace
from cutover.parity.jobs.values import Instance, JobClass, JobFunction, JobValue, Scope


class Walk(Protocol):
    """A walk that has got somewhere: what it noted so far, and how it goes on into functions and classes."""

    trace: Trace
    activations: list[Activation]  # functions that are being followed, the innermost last
    loops: list[Loop]
    functions: list[JobFunction]  # that are being followed, the innermost last
    called: set[ast.AST]
    yielded: list[list[JobValue]]  # what generators yield, one list for each function that is being followed
    has_star: bool

    def spend(self, node: ast.AST) -> None:
        """Count a step against the most that a job may take."""

    def run_block(self, body: Iterable[ast.stmt], scope: Scope) -> bool:
        """Follow statements; return whether what stands behind them can be reached."""

    def assign(self, scope: Scope, name: str, value: JobValue) -> None:
        """Bind a name, where it was declared."""

    def bind_target(self, target: ast.expr, value: JobValue, scope: Scope) -> None:
        """Bind what stands at the left of `=`."""

    def call_function(self, function: JobFunction, arguments: Arguments) -> JobValue:
        """Follow the body of a function with its arguments bound."""

    def call_value(self, target: JobValue, arguments: Arguments) -> JobValue | None:
        """Follow whatever of the job's own can be called; None if it cannot."""

    def instantiate(self, of: JobClass, arguments: Arguments) -> Instance:
        """Make an object of a class, its `__init__` followed."""
