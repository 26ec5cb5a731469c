"""Sources of the repository as tests of its rules read them: each file is parsed once."""

import ast
from functools import cache
from pathlib import Path


@cache
def parse_source(file: Path) -> ast.Module:
    """Parse a module; the tree is shared, so no caller may change it.

    Args:
        file: Absolute, so that each file has one name.
    """
    return ast.parse(file.read_text(encoding="utf-8"))
