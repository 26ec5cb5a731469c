"""Readers of plans as text: `df.explain("extended")`, `df.explain("formatted")`, and `queryExecution.logical.toJSON`.

A plan as JSON is analyzed or unresolved.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from cutover.errors import DefinitionError
from cutover.parity import rules
from cutover.parity.plans.findings import DATES, FLOAT, NO_PARENT, PlanCall, PlanNode, name_function

SECTION = re.compile(r"^== (.+) ==$")
ANALYSED = "Analyzed Logical Plan"
PHYSICAL = "Physical Plan"
BRANCH = re.compile(r"^((?::  |   )*)(\+- |:- )?(.*)$")
PREFIX_MARKS = re.compile(r"^(~|\*(\(\d+\))? ?|!)+")
NUMBERED = re.compile(r"^([A-Za-z]\w*).*?\((\d+)\)$")
DETAIL = re.compile(r"^\((\d+)\) ([A-Za-z]\w*)")
CALL = re.compile(r"([A-Za-z_]\w*)\(|\(|\)")
ATTRIBUTE = re.compile(r"#\d+L?")
COLUMN = re.compile(r"([A-Za-z_]\w*)#\d+")
FIELD = re.compile(r"(\w+):\s?(?:double|float)\b")
CAST = re.compile(r"as (?:double|float)\) AS (\w+)#")
TRUNCATED = re.compile(r"\.\.\. \d+ more fields")
REPEATED_AGGREGATE_LINES = ("Functions", "Aggregate Attributes", "Input")
"""Lines of an aggregate that repeat parts of its results."""

Fields = dict[str, object]
CHILDREN = "num-children"
TIMES = frozenset({"timestamp", "timestamp_ntz", "date"})


def read_printed(text: str, file: str) -> tuple[PlanNode, ...]:
    """Return the operators of a plan, each before its descendants.

    The analyzed plan is preferred; in a physical plan the current time is already a constant.

    Args:
        text: Output of `explain`.
        file: Name of the file in messages.

    Raises:
        DefinitionError: The text is not a plan, lacks the needed sections, or was truncated by Spark.
    """
    sections = _split_sections(text)
    if TRUNCATED.search(text):
        msg = f"{file}: expected a whole plan, got one cut short; set spark.sql.debug.maxToStringFields to 10000."
        raise DefinitionError(msg)
    floats = frozenset(FIELD.findall(text)) | frozenset(CAST.findall(text))
    if ANALYSED in sections:
        start, lines = sections[ANALYSED]
        nodes = tuple(_read_tree(lines[1:], start + 1, floats))
    elif PHYSICAL in sections:
        nodes = tuple(_read_formatted(*sections[PHYSICAL], floats))
    else:
        nodes = ()
    if not nodes:
        expected = 'a plan of Spark\'s: what df.explain("extended") or df.explain("formatted") prints, or toJSON of one'
        msg = f"{file}: expected {expected}, got a text without an analysed or a formatted physical plan."
        raise DefinitionError(msg)
    return nodes


def _split_sections(text: str) -> Mapping[str, tuple[int, list[str]]]:
    """Return the lines of each section, with the line number of the first."""
    sections: dict[str, tuple[int, list[str]]] = {}
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        title = SECTION.match(line)
        if title:
            lines = []
            sections.setdefault(title[1], (number + 1, lines))
        else:
            lines.append(line)
    return sections


def _read_tree(lines: list[str], start: int, floats: frozenset[str]) -> Iterator[PlanNode]:
    path: list[int] = []
    for index, (number, depth, text) in enumerate(_join_lines(lines, start)):
        del path[depth:]
        unmarked_text = PREFIX_MARKS.sub("", text)
        name = re.split(r"\W", unmarked_text, maxsplit=1)[0]
        yield PlanNode(
            line=number,
            name=name,
            text=unmarked_text,
            parent=path[-1] if path else NO_PARENT,
            calls=_read_calls(unmarked_text[len(name) :], floats),
            order=_read_order(unmarked_text) if name == "Window" else frozenset(),
            is_streaming=text.startswith("~") or name.startswith("StreamingRelation"),
        )
        path.append(index)


def _join_lines(lines: list[str], start: int) -> list[tuple[int, int, str]]:
    """Return line, depth and text of each operator; a line without a branch mark continues the previous one."""
    operators: list[tuple[int, int, str]] = []
    for number, line in enumerate(lines, start):
        branch = BRANCH.match(line)
        if branch is None or not line.strip():
            continue
        if operators and branch[2] is None:
            first_line, depth, text = operators.pop()
            operators.append((first_line, depth, f"{text}\n{line}"))
        else:
            operators.append((number, len(branch[1]) // 3 + (branch[2] is not None), branch[3]))
    return operators


def _read_calls(text: str, floats: frozenset[str]) -> tuple[PlanCall, ...]:
    """Return the functions of an operator; a column whose name looks like a call does not count."""
    spans = [_Span(name="", start=0, end=len(text), parent=NO_PARENT)]
    stack: list[int] = []
    for match in CALL.finditer(text):
        if match[0] != ")":
            outer = next((index for index in reversed(stack) if spans[index].name), NO_PARENT)
            spans.append(_Span(name=match[1] or "", start=match.end(), end=len(text), parent=outer))
            stack.append(len(spans) - 1)
        elif stack:
            spans[stack.pop()].end = match.start()
    call_indexes: dict[int, int] = {NO_PARENT: NO_PARENT}
    calls: list[PlanCall] = []
    columns = [span for span in spans if span.is_column(text)]
    for index, span in enumerate(spans):
        if not span.name or any(column.start <= span.start <= column.end for column in columns):
            continue
        call_indexes[index] = len(calls)
        calls.append(_make_call(span, text, floats, call_indexes.get(span.parent, NO_PARENT)))
    return tuple(calls)


class _Span:
    """Extent of a call's arguments in the text of an operator."""

    def __init__(self, *, name: str, start: int, end: int, parent: int) -> None:
        self.name, self.start, self.end, self.parent = name, start, end, parent

    def is_column(self, text: str) -> bool:
        """Return whether the call is the name of a column: `count(1)#4`, and not `count(x#3)#4`."""
        is_numbered = ATTRIBUTE.match(text, self.end + 1) is not None
        return bool(self.name) and is_numbered and ATTRIBUTE.search(text[self.start : self.end]) is None


def _make_call(span: _Span, text: str, floats: frozenset[str], parent: int) -> PlanCall:
    name, arguments = name_function(span.name), text[span.start : span.end]
    columns = set(COLUMN.findall(arguments))
    is_float = bool(columns & floats or re.search(r"as (double|float)\)", arguments)) and "as decimal(" not in arguments
    alias = re.match(r"(?:#\d+L?)? AS (\w+)#", text[span.end + 1 :])
    result_is_float = name == "sum" and alias is not None and alias[1] in floats
    return PlanCall(
        name=name,
        parent=parent,
        sums_float=name in rules.MOMENTS or (name in {"sum", "avg"} and is_float) or result_is_float,
        needs_zone=name in rules.TIME_ZONE and (name not in DATES or " as date)" in arguments),
    )


def _read_order(text: str) -> frozenset[str]:
    """Return the columns in a window's ORDER BY, the last of its three lists."""
    depth, groups, start = 0, [], 0
    for index, letter in enumerate(text):
        if letter == "[":
            start = index if depth == 0 else start
            depth += 1
        elif letter == "]":
            depth -= 1
            if depth == 0:
                groups.append(text[start:index])
    return frozenset(COLUMN.findall(groups[2])) if len(groups) > 2 else frozenset()  # noqa: PLR2004 -- three lists


def _read_formatted(start: int, lines: list[str], floats: frozenset[str]) -> Iterator[PlanNode]:
    """Read the trees of a formatted plan, each operator with its detail lines."""
    details = _read_details(lines)
    path: list[int] = []
    index = 0
    for number, line in enumerate(lines, start):
        branch = BRANCH.match(line)
        unmarked_text = PREFIX_MARKS.sub("", branch[3]) if branch else ""
        numbered = NUMBERED.match(unmarked_text)
        if branch is None or numbered is None or int(numbered[2]) not in details:
            continue
        depth = len(branch[1]) // 3 + (branch[2] is not None)
        del path[depth:]
        name = numbered[1].removesuffix("Exec")
        text = details[int(numbered[2])]
        yield PlanNode(
            line=number,
            name=name,
            text=text,
            parent=path[-1] if path else NO_PARENT,
            calls=_read_calls(text, floats),
            order=_read_order(text.partition("Arguments:")[2]) if name == "Window" else frozenset(),
            is_streaming=name.startswith("StreamingRelation") or name == "MicroBatchScan",
        )
        path.append(index)
        index += 1


def _read_details(lines: list[str]) -> dict[int, str]:
    details: dict[int, str] = {}
    number = 0
    for line in lines:
        head = DETAIL.match(line)
        if head:
            number = int(head[1])
            details[number] = ""
        elif not line.strip():
            number = 0
        elif number and not line.startswith(REPEATED_AGGREGATE_LINES):
            details[number] += line + "\n"
    return details


def parse_plan_json(text: str, file: str) -> tuple[PlanNode, ...]:
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
            yield _make_json_call(nodes_with_parents, index, call_indexes[parent], is_join=is_join)


def _make_json_call(
    nodes_with_parents: Sequence[tuple[Fields, int]], index: int, parent: int, *, is_join: bool
) -> PlanCall:
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
        sums_float=name in rules.MOMENTS or (name in {"sum", "avg"} and _is_float(nodes_with_parents, index)),
        needs_zone=name in rules.TIME_ZONE and (name not in DATES or "Cast" in {_name(node) for node in children}),
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
