"""A plan as `queryExecution.logical.toJSON` gives it: analysed, or as the parser left it."""

import json
from collections.abc import Iterator, Sequence

from cutover.errors import DefinitionError
from cutover.parity import sql
from cutover.parity.plans.model import DATES, FLOAT, ROOT, PlanCall, PlanNode, name_function

Fields = dict[str, object]
CHILDREN = "num-children"
TIMES = frozenset({"timestamp", "timestamp_ntz", "date"})


def read_json(text: str, file: str) -> tuple[PlanNode, ...]:
    """Return the operators of a plan, each before those below it.

    Args:
        text: A list of objects, each with its class and the number of those below it.
        file: As messages name it.

    Raises:
        DefinitionError: It is no JSON, or JSON of something else.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{file}: expected the JSON of a plan, got: {error}"
        raise DefinitionError(msg) from None
    if not _is_tree(found):
        msg = f"{file}: expected a list of operators, each with `class` and `{CHILDREN}`, got other JSON."
        raise DefinitionError(msg)
    return tuple(_make_node(number, fields, parent) for number, (fields, parent) in enumerate(_place(found, file), 1))


def _is_tree(found: object) -> bool:
    """Return whether this is a tree as Spark writes one: objects in a list."""
    return (
        isinstance(found, list)
        and bool(found)
        and all(isinstance(node, dict) and isinstance(node.get("class"), str) for node in found)
        and all(isinstance(node.get(CHILDREN), int) and node[CHILDREN] >= 0 for node in found)
    )


def _place(tree: Sequence[Fields], file: str) -> Iterator[tuple[Fields, int]]:
    """Yield each object with the place of the one above it.

    Raises:
        DefinitionError: The numbers do not make one tree.
    """
    open_places: list[list[int]] = []
    for place, fields in enumerate(tree):
        while open_places and not open_places[-1][1]:
            open_places.pop()
        if place and not open_places:
            msg = f"{file}: expected one tree, got {len(tree) - place} objects behind its end."
            raise DefinitionError(msg)
        yield fields, open_places[-1][0] if open_places else ROOT
        if open_places:
            open_places[-1][1] -= 1
        open_places.append([place, int(str(fields[CHILDREN]))])


def _make_node(number: int, fields: Fields, parent: int) -> PlanNode:
    trees = [tree for value in fields.values() for tree in _find_trees(value)]
    has_window = any(_name(node) == "WindowExpression" for tree in trees for node in tree)
    name = "Window" if has_window else _name(fields)  # the parser leaves windows where they were written
    return PlanNode(
        line=number,
        name=name,
        text=name + _describe_sorts(fields, trees),
        above=parent,
        calls=tuple(_join_calls(trees, is_join=name == "Join")),
        order=frozenset(column for tree in trees for column in _find_order(tree)) if has_window else frozenset(),
        is_streaming=name.startswith("StreamingRelation") or fields.get("isStreaming") is True,
    )


def _describe_sorts(fields: Fields, trees: Sequence[list[Fields]]) -> str:
    """Return what Spark would print of what is sorted: only the rows of each partition, or those of a group."""
    is_local = ", false" if fields.get("global") is False else ""
    has_order = any(_name(node) == "SortOrder" for tree in trees for node in tree)
    return is_local + (" WITHIN GROUP" if has_order else "")


def _name(fields: Fields) -> str:
    return str(fields["class"]).rpartition(".")[2].rstrip("$")


def _find_trees(value: object) -> Iterator[list[Fields]]:
    """Yield the trees of expressions in a field: one, or a list of them."""
    if _is_tree(value):
        yield value  # type: ignore[misc]  # just looked at
    elif isinstance(value, list):
        for node in value:
            yield from _find_trees(node)


def _find_order(tree: list[Fields]) -> Iterator[str]:
    """Yield the columns that a window is ordered by."""
    sorts: set[int] = set()
    for place, (fields, parent) in enumerate(_place(tree, "a plan")):
        if parent in sorts or _name(fields) == "SortOrder":
            sorts.add(place)
            yield str(fields.get("name") or fields.get("nameParts") or "").strip("[]").rpartition(",")[2].strip()


def _join_calls(trees: Sequence[list[Fields]], *, is_join: bool) -> Iterator[PlanCall]:
    """Yield the functions of all trees of an operator, one after another, without what Spark wraps them in."""
    total = 0
    for tree in trees:
        placed_fields = list(_place(tree, "a plan"))
        is_inside = {ROOT: ROOT}
        for place, (fields, parent) in enumerate(placed_fields):
            if _name(fields) in {"AggregateExpression", "Alias", "AttributeReference", "Literal"}:
                is_inside[place] = is_inside[parent]
                continue
            is_inside[place] = total
            total += 1
            yield _make_call(placed_fields, place, is_inside[parent], is_join=is_join)


def _make_call(placed_fields: Sequence[tuple[Fields, int]], place: int, parent: int, *, is_join: bool) -> PlanCall:
    fields = placed_fields[place][0]
    below = [node for node, upper in placed_fields if upper == place]
    name = name_function(_unresolved_name(fields) or _name(fields))
    is_bound = is_join and (
        _name(fields) in {"LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"}
        or (_name(fields) == "EqualTo" and any(_is_time(node) for node in below))
    )
    return PlanCall(
        name="bounded" if is_bound else name,
        above=parent,
        sums_float=name in sql.MOMENTS or (name in {"sum", "avg"} and _is_float(placed_fields, place)),
        needs_zone=name in sql.TIME_ZONE and (name not in DATES or "Cast" in {_name(node) for node in below}),
    )


def _unresolved_name(fields: Fields) -> str:
    """Return what a function is called that the parser did not look up."""
    parts = fields.get("nameParts")
    if _name(fields) != "UnresolvedFunction" or not parts:
        return ""
    return str(parts[-1] if isinstance(parts, list) else parts).strip("[]").rpartition(",")[2].strip()


def _is_time(fields: Fields) -> bool:
    kind = fields.get("dataType")
    return str(kind) in TIMES or isinstance(kind, dict)  # a window is a structure


def _is_float(placed_fields: Sequence[tuple[Fields, int]], place: int) -> bool:
    """Return whether the argument of a function is a floating-point number: by its type, else by its parts'."""
    for below, (fields, parent) in enumerate(placed_fields):
        if parent == place:
            kind = fields.get("dataType")  # of a structure an object
            if str(kind) in FLOAT or (kind is None and _is_float(placed_fields, below)):
                return True
    return False
