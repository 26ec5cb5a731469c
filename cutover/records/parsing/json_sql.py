"""Spark SQL of places in the JSON: the schema that `from_json` reads, and the access to a value of its result."""

from collections.abc import Iterable, Sequence

from cutover.definition.model.json_fields import JsonPath, Tree, build_tree, list_parents
from cutover.quoting import spark_identifier

VARIANT = "variant"


def format_json_schema(leaves: Sequence[tuple[JsonPath, str]]) -> str:
    """Write the columns of a schema that has a type at each path; objects are structs, and elements are of one type."""
    return ", ".join(_format_members(build_tree(leaves)))


def _format_members(tree: Tree) -> list[str]:
    return [f"{spark_identifier(str(name))} {_format_type(node)}" for name, node in tree.items()]


def _format_type(node: Tree | str) -> str:
    if isinstance(node, str):
        return node
    return f"array<{_format_type(node[None])}>" if None in node else f"struct<{', '.join(_format_members(node))}>"


def select_path_sql(root: str, path: Iterable[str | int]) -> str:
    """Return the SQL of a value in a struct; null if a parent is null, or an array has too few elements."""
    for step in path:
        root = f"get({root}, {step})" if isinstance(step, int) else f"{root}.{spark_identifier(step)}"
    return root


def select_variant_sql(root: str, path: JsonPath) -> str:
    """Return the SQL of the variant in an array of variants; the path begins with an index."""
    element = f"get({root}, {path[0]})"
    if len(path) == 1:
        return element
    steps = "".join(f"[{step}]" if isinstance(step, int) else _format_key(step) for step in path[1:])
    return f"""try_variant_get({element}, "${steps}", '{VARIANT}')"""


def _format_key(name: str) -> str:
    return f'[\\"{name}\\"]' if set(name) & set(".[") else f".{name}"


def list_named_parents(paths: Sequence[JsonPath]) -> list[JsonPath]:
    """List the paths of the objects and arrays that have a name, so that a colon follows it in the JSON."""
    return [path for path in list_parents(paths) if isinstance(path[-1], str)]


def count_present_sql(conditions: Iterable[str]) -> str:
    """Build the sum of ones for the conditions that hold."""
    return " + ".join(f"IF({condition}, 1, 0)" for condition in conditions) or "0"


def join_by_or(conditions: Iterable[str]) -> str:
    """Return the disjunction of conditions; false if there are none."""
    return " OR ".join(conditions) or "false"


def count_colons_sql(text: str) -> str:
    """Build an expression; it splits, which is faster than a regular expression."""
    return f"(size(split({text}, ':')) - 1)"
