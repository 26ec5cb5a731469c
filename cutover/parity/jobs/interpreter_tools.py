"""Methods of a job's classes, and the items that its loops run over."""

import ast

from cutover.parity.jobs.values import Constant, Instance, JobClass, JobFunction, JobValue, Listing, Table, UnknownValue

UNROLLED = 12  # items of a list that a loop runs over


def find_method(of: JobClass, name: str, owner: Instance) -> JobFunction | None:
    """Return a method of a class or of its bases in the same file, bound to an object."""
    for node in of.node.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            static = any(ast.unparse(mark) == "staticmethod" for mark in node.decorator_list)
            return JobFunction(node, of.scope, None if static else owner)
    for base in of.node.bases:
        found = of.scope.find(base.id) if isinstance(base, ast.Name) else None
        if isinstance(found, JobClass):
            return find_method(found, name, owner)
    return None


def list_items(value: JobValue, node: ast.AST) -> list[JobValue]:
    """Return the items that a loop runs over: those of a literal, else two that stand for any."""
    if isinstance(value, Listing) and value.is_complete and len(value.items) <= UNROLLED:
        return value.items
    if isinstance(value, Table) and value.is_complete and len(value.items) <= UNROLLED:
        return [Constant(key) for key in value.items]
    line = getattr(node, "lineno", 0)
    return [UnknownValue(f"{{item {number} of line {line}}}") for number in (1, 2)]
