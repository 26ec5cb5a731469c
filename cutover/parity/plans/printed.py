"""A plan as `df.explain("extended")` or `df.explain("formatted")` prints it."""

import re
from collections.abc import Iterator, Mapping

from cutover.errors import DefinitionError
from cutover.parity import sql
from cutover.parity.plans.model import DATES, ROOT, PlanCall, PlanNode, name_function

SECTION = re.compile(r"^== (.+) ==$")
ANALYSED = "Analyzed Logical Plan"
PHYSICAL = "Physical Plan"
BRANCH = re.compile(r"^((?::  |   )*)(\+- |:- )?(.*)$")
MARKS = re.compile(r"^(~|\*(\(\d+\))? ?|!)+")
NUMBERED = re.compile(r"^([A-Za-z]\w*).*?\((\d+)\)$")
DETAIL = re.compile(r"^\((\d+)\) ([A-Za-z]\w*)")
CALL = re.compile(r"([A-Za-z_]\w*)\(|\(|\)")
ATTRIBUTE = re.compile(r"#\d+L?")
COLUMN = re.compile(r"([A-Za-z_]\w*)#\d+")
FIELD = re.compile(r"(\w+):\s?(?:double|float)\b")
CAST = re.compile(r"as (?:double|float)\) AS (\w+)#")
CUT_SHORT = re.compile(r"\.\.\. \d+ more fields")
LINE_OF_AGGREGATE = ("Functions", "Aggregate Attributes", "Input")
"""Lines of an aggregate that say in parts what its results say whole."""


def read_printed(text: str, file: str) -> tuple[PlanNode, ...]:
    """Return the operators of a plan, each before those below it.

    Of a text with an analysed plan that one is read, of another the physical one, in which the clock is a constant.

    Args:
        text: What Spark printed.
        file: As messages name it.

    Raises:
        DefinitionError: It is no plan, has too little of it, or was cut short by Spark.
    """
    sections = _split(text)
    if CUT_SHORT.search(text):
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


def _split(text: str) -> Mapping[str, tuple[int, list[str]]]:
    """Return the lines of each section, with the number of the first one."""
    found: dict[str, tuple[int, list[str]]] = {}
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        title = SECTION.match(line)
        if title:
            lines = []
            found.setdefault(title[1], (number + 1, lines))
        else:
            lines.append(line)
    return found


def _read_tree(lines: list[str], start: int, floats: frozenset[str]) -> Iterator[PlanNode]:
    path: list[int] = []
    for place, (number, depth, text) in enumerate(_join_lines(lines, start)):
        del path[depth:]
        bare = MARKS.sub("", text)
        name = re.split(r"\W", bare, maxsplit=1)[0]
        yield PlanNode(
            line=number,
            name=name,
            text=bare,
            above=path[-1] if path else ROOT,
            calls=_read_calls(bare[len(name) :], floats),
            order=_read_order(bare) if name == "Window" else frozenset(),
            is_streaming=text.startswith("~") or name.startswith("StreamingRelation"),
        )
        path.append(place)


def _join_lines(lines: list[str], start: int) -> list[tuple[int, int, str]]:
    """Return line, depth and text of each operator; a line that begins no branch belongs to the one before."""
    found: list[tuple[int, int, str]] = []
    for number, line in enumerate(lines, start):
        branch = BRANCH.match(line)
        if branch is None or not line.strip():
            continue
        if found and branch[2] is None:
            before = found.pop()
            found.append((before[0], before[1], f"{before[2]}\n{line}"))
        else:
            found.append((number, len(branch[1]) // 3 + (branch[2] is not None), branch[3]))
    return found


def _read_calls(text: str, floats: frozenset[str]) -> tuple[PlanCall, ...]:
    """Return the functions of an operator; a column that is named like a call is none."""
    spans = [_Span(name="", start=0, end=len(text), parent=ROOT)]
    stack: list[int] = []
    for match in CALL.finditer(text):
        if match[0] != ")":
            outer = next((place for place in reversed(stack) if spans[place].name), ROOT)
            spans.append(_Span(name=match[1] or "", start=match.end(), end=len(text), parent=outer))
            stack.append(len(spans) - 1)
        elif stack:
            spans[stack.pop()].end = match.start()
    retained: dict[int, int] = {ROOT: ROOT}
    calls: list[PlanCall] = []
    columns = [span for span in spans if span.is_column(text)]
    for place, span in enumerate(spans):
        if not span.name or any(column.start <= span.start <= column.end for column in columns):
            continue
        retained[place] = len(calls)
        calls.append(_make_call(span, text, floats, retained.get(span.parent, ROOT)))
    return tuple(calls)


class _Span:
    """Where the arguments of a call stand."""

    def __init__(self, *, name: str, start: int, end: int, parent: int) -> None:
        self.name, self.start, self.end, self.parent = name, start, end, parent

    def is_column(self, text: str) -> bool:
        """Return whether this is the name of a column: `count(1)#4`, and not `count(x#3)#4`."""
        is_numbered = ATTRIBUTE.match(text, self.end + 1) is not None
        return bool(self.name) and is_numbered and ATTRIBUTE.search(text[self.start : self.end]) is None


def _make_call(span: _Span, text: str, floats: frozenset[str], parent: int) -> PlanCall:
    name, is_inside = name_function(span.name), text[span.start : span.end]
    columns = set(COLUMN.findall(is_inside))
    is_float = bool(columns & floats or re.search(r"as (double|float)\)", is_inside)) and "as decimal(" not in is_inside
    alias = re.match(r"(?:#\d+L?)? AS (\w+)#", text[span.end + 1 :])
    result_is_float = name == "sum" and alias is not None and alias[1] in floats
    return PlanCall(
        name=name,
        above=parent,
        sums_float=name in sql.MOMENTS or (name in {"sum", "avg"} and is_float) or result_is_float,
        needs_zone=name in sql.TIME_ZONE and (name not in DATES or " as date)" in is_inside),
    )


def _read_order(text: str) -> frozenset[str]:
    """Return the columns of a window's order: the last of its three lists."""
    depth, groups, start = 0, [], 0
    for place, letter in enumerate(text):
        if letter == "[":
            start = place if depth == 0 else start
            depth += 1
        elif letter == "]":
            depth -= 1
            if depth == 0:
                groups.append(text[start:place])
    return frozenset(COLUMN.findall(groups[2])) if len(groups) > 2 else frozenset()  # noqa: PLR2004 -- three lists


def _read_formatted(start: int, lines: list[str], floats: frozenset[str]) -> Iterator[PlanNode]:
    """Read the trees of a formatted plan, each operator with the lines that say more of it."""
    details = _read_details(lines)
    path: list[int] = []
    place = 0
    for number, line in enumerate(lines, start):
        branch = BRANCH.match(line)
        bare = MARKS.sub("", branch[3]) if branch else ""
        numbered = NUMBERED.match(bare)
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
            above=path[-1] if path else ROOT,
            calls=_read_calls(text, floats),
            order=_read_order(text.partition("Arguments:")[2]) if name == "Window" else frozenset(),
            is_streaming=name.startswith("StreamingRelation") or name == "MicroBatchScan",
        )
        path.append(place)
        place += 1


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
        elif number and not line.startswith(LINE_OF_AGGREGATE):
            details[number] += line + "\n"
    return details
