"""Reader of `queryExecution.logical.toJSON`: an analyzed plan, or an unresolved one."""

import json
from collections.abc import Iterator, Sequence

from cutover.errors import DefinitionError
from cutover.parity import sql
from cutover.parity.plans.model import DATES, FLOAT, NO_PARENT, PlanCall, PlanNode, name_function

Fields = dict[str, object]
CHILDREN = "num-children"
TIMES = frozenset({"timestamp", "timestamp_ntz", "date"})


def read_json(text: str, file: str) -> tuple[PlanNode, ...]:
    """Return the operators of a plan, each before its descendants.

    Args:
        text: JSON list of objects, each with its class and its number of children.
        file: Name of the file in messages.

    Raises:
        DefinitionError: The text is not JSON, or not the JSON of a plan.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{file}: expected the JSON of a plan, got: {error}"
        raise DefinitionError(msg) from None
    if not _is_tree(tree):
        msg = f"{file}: expected a list of operators, each with `class` and `{CHILDREN}`, got other JSON."
        raise DefinitionError(msg)
    return tuple(
        _make_node(number, fields, parent) for number, (fields, parent) in enumerate(_list_with_parents(tree, file), 1)
    )


def _is_tree(tree: object) -> bool:
    """Return whether a value is a tree in Spark's form: a list of objects with a class and a child count."""
    return (
        isinstance(tree, list)
        and bool(tree)
        and all(isinstance(node, dict) and isinstance(node.get("class"), str) for node in tree)
        and all(isinstance(node.get(CHILDREN), int) and node[CHILDREN] >= 0 for node in tree)
    )


def _list_with_parents(tree: Sequence[Fields], file: str) -> Iterator[tuple[Fields, int]]:
    """Yield each object with the index of its parent.

    Raises:
        DefinitionError: The child counts do not form one tree.
    """
    open_nodes: list[list[int]] = []
    for index, fields in enumerate(tree):
        while open_nodes and not open_nodes[-1][1]:
            open_nodes.pop()
        if index and not open_nodes:
            msg = f"{file}: expected one tree, got {len(tree) - index} objects after its end."
            raise DefinitionError(msg)
        yield fields, open_nodes[-1][0] if open_nodes else NO_PARENT
        if open_nodes:
            open_nodes[-1][1] -= 1
        open_nodes.append([index, int(str(fields[CHILDREN]))])


def _make_node(number: int, fields: Fields, parent: int) -> PlanNode:
    trees = [tree for value in fields.values() for tree in _find_trees(value)]
    has_window = any(_name(node) == "WindowExpression" for tree in trees for node in tree)
    name = "Window" if has_window else _name(fields)  # the parser leaves windows inside projections
    return PlanNode(
        line=number,
        name=name,
        text=name + _describe_sorts(fields, trees),
        parent=parent,
        calls=tuple(_join_calls(trees, is_join=name == "Join")),
        order=frozenset(column for tree in trees for column in _find_order(tree)) if has_window else frozenset(),
        is_streaming=name.startswith("StreamingRelation") or fields.get("isStreaming") is True,
    )


def _describe_sorts(fields: Fields, trees: Sequence[list[Fields]]) -> str:
    """Return the text that Spark prints for a sort: within partitions only, or within a group."""
    is_local = ", false" if fields.get("global") is False else ""
    has_order = any(_name(node) == "SortOrder" for tree in trees for node in tree)
    return is_local + (" WITHIN GROUP" if has_order else "")


def _name(fields: Fields) -> str:
    return str(fields["class"]).rpartition(".")[2].rstrip("$")


def _find_trees(value: object) -> Iterator[list[Fields]]:
    """Yield the expression trees of a field, which holds one or a list."""
    if _is_tree(value):
        yield value  # type: ignore[misc]  # `_is_tree` checked it
    elif isinstance(value, list):
        for node in value:
            yield from _find_trees(node)


def _find_order(tree: list[Fields]) -> Iterator[str]:
    """Yield the columns in the ORDER BY of a window."""
    sorts: set[int] = set()
    for index, (fields, parent) in enumerate(_list_with_parents(tree, "a plan")):
        if parent in sorts or _name(fields) == "SortOrder":
            sorts.add(index)
            yield str(fields.get("name") or fields.get("nameParts") or "").strip("[]").rpartition(",")[2].strip()


def _join_calls(trees: Sequence[list[Fields]], *, is_join: bool) -> Iterator[PlanCall]:
    """Yield the functions of all trees of an operator in order, without Spark's wrapper expressions."""
    total = 0
    for tree in trees:
        nodes_with_parents = list(_list_with_parents(tree, "a plan"))
        call_indexes = {NO_PARENT: NO_PARENT}
        for index, (fields, parent) in enumerate(nodes_with_parents):
            if _name(fields) in {"AggregateExpression", "Alias", "AttributeReference", "Literal"}:
                call_indexes[index] = call_indexes[parent]
                continue
            call_indexes[index] = total
            total += 1
            yield _make_call(nodes_with_parents, index, call_indexes[parent], is_join=is_join)


def _make_call(nodes_with_parents: Sequence[tuple[Fields, int]], index: int, parent: int, *, is_join: bool) -> PlanCall:
    fields = nodes_with_parents[index][0]
    children = [node for node, node_parent in nodes_with_parents if node_parent == index]
    name = name_function(_unresolved_name(fields) or _name(fields))
    is_bound = is_join and (
        _name(fields) in {"LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"}
        or (_name(fields) == "EqualTo" and any(_is_time(node) for node in children))
    )
    return PlanCall(
        name="bounded" if is_bound else name,
        parent=parent,
        sums_float=name in sql.MOMENTS or (name in {"sum", "avg"} and _is_float(nodes_with_parents, index)),
        needs_zone=name in sql.TIME_ZONE and (name not in DATES or "Cast" in {_name(node) for node in children}),
    )


def _unresolved_name(fields: Fields) -> str:
    """Return the name of a function that the parser did not resolve."""
    parts = fields.get("nameParts")
    if _name(fields) != "UnresolvedFunction" or not parts:
        return ""
    return str(parts[-1] if isinstance(parts, list) else parts).strip("[]").rpartition(",")[2].strip()


def _is_time(fields: Fields) -> bool:
    kind = fields.get("dataType")
    return str(kind) in TIMES or isinstance(kind, dict)  # the type of a window is a struct


def _is_float(nodes_with_parents: Sequence[tuple[Fields, int]], index: int) -> bool:
    """Return whether a function's argument is a floating-point number, by its type or that of its descendants."""
    for child, (fields, parent) in enumerate(nodes_with_parents):
        if parent == index:
            kind = fields.get("dataType")  # an object for a struct
            if str(kind) in FLOAT or (kind is None and _is_float(nodes_with_parents, child)):
                return True
    return False
