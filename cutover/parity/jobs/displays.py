"""Statements of a job whose DataFrames are only shown or printed, so that no result depends on them."""

import ast
import re

from cutover.parity.rules import Construct

DISPLAY_METHODS = frozenset({"show", "printSchema", "explain", "display"})
DISPLAY_FUNCTIONS = frozenset({"print", "display"})
LOGGING_METHODS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "log"})
STORING_ATTRIBUTES = frozenset(
    {"write", "writeStream", "writeTo", "foreach", "foreachBatch", "foreachPartition", "transform", "pipe"}
    | {"createTempView", "createOrReplaceTempView", "createGlobalTempView", "createOrReplaceGlobalTempView"}
)
"""Attributes after which rows may be used elsewhere."""

CHANGING_STATEMENT = re.compile(r"\b(insert|create|merge|replace|update|delete)\b", re.IGNORECASE)

HARMLESS_IF_SHOWN = frozenset(
    {Construct.CLOCK, Construct.RANDOM, Construct.ORDER, Construct.TIES, Construct.LIMIT, Construct.FLOAT_SUM}
    | {Construct.TIME_ZONE}
)
"""Constructs that change only what a person sees if their rows are shown."""


def list_display_statements(tree: ast.Module) -> frozenset[ast.stmt]:
    """List the statements that show a value, and the assignments of names that only such statements read."""
    own_names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Expr | ast.Assign)]
    candidates = [node for node in statements if not _stores_rows(node, own_names)]
    displays: set[ast.stmt] = {node for node in candidates if isinstance(node, ast.Expr) and _is_display(node.value)}
    names_by_reader = _list_reads(tree, statements)
    for node in reversed(candidates):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            readers = names_by_reader.get(node.targets[0].id, [])
            if readers and all(reader in displays for reader in readers):
                displays.add(node)
    return frozenset(displays)


def _is_display(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name)):
            return name in DISPLAY_FUNCTIONS
        case ast.Call(func=ast.Attribute(attr=name, value=owner)):
            return name in DISPLAY_METHODS or (name in LOGGING_METHODS and "log" in ast.unparse(owner).lower())
        case _:
            return False


def _stores_rows(statement: ast.stmt, own_names: set[str]) -> bool:
    """Return whether a statement may use its rows for more than its own value."""
    for node in ast.walk(statement):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in own_names or name in STORING_ATTRIBUTES:
                return True
            case ast.Constant(value=str(text)) if CHANGING_STATEMENT.search(text):
                return True
            case ast.NamedExpr():
                return True
            case ast.Call(func=ast.Attribute(attr="sql"), args=[argument, *_]) if not isinstance(
                argument, ast.Constant
            ):
                return True
    return False


def _list_reads(tree: ast.Module, statements: list[ast.Expr | ast.Assign]) -> dict[str, list[ast.stmt | None]]:
    """List the statements that read each name; None for a read outside of them."""
    owners = {part: statement for statement in statements for part in ast.walk(statement)}
    reads: dict[str, list[ast.stmt | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            reads.setdefault(node.id, []).append(owners.get(node))
    return reads
