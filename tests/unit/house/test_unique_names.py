"""One name for one thing: a search for a public function or class of the product finds one definition."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.suite.sources import parse_source

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("cutover", "streaming", "batch", "reconcile", "infra", "dags", "samples")

INTERFACES = (  # folders whose modules implement one interface and are called through it; their functions
    ({"dags/cutover_tasks/moves"}, {"propose", "apply", "verify", "undo"}),  # tasks of `dags/change_dag.py`
    ({"cutover/panes", "streaming/simulation"}, {"run"}),  # entry points `cutover.runners`
)
ENTRY_POINT = "main"  # of a module that is run as a program


def list_commands(module: ast.Module) -> Iterator[str]:
    """Yield the functions of a CLI module that have the name of their command or of their group of commands."""
    for node in module.body:
        match node:
            case ast.FunctionDef(name=name, decorator_list=decorators):
                if {"app.command()", "app.callback()"} & {ast.unparse(decorator) for decorator in decorators}:
                    yield name
            case ast.Assign(targets=[ast.Name("COMMANDS")], value=ast.Dict(keys=keys, values=values)):
                names = {ast.unparse(value) for value in values}
                yield from names & {ast.literal_eval(key).replace("-", "_") for key in keys if key is not None}


def is_exempt(file: str, name: str) -> bool:
    """Return whether the name of a function belongs to an interface, or to every program."""
    folder = file.rpartition("/")[0]
    return name == ENTRY_POINT or any(folder in folders and name in names for folders, names in INTERFACES)


def list_places(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """List the files that define each public name of modules; exempt names are left out."""
    places = defaultdict(list)
    for file, module in modules.items():
        commands = {*list_commands(module)} if "cli" in Path(file).with_suffix("").parts else set()
        for node in module.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = node.name
                if not (name.startswith("_") or name in commands or is_exempt(file, name)):
                    places[name].append(file)
    return places


def test_no_two_public_functions_or_classes_have_one_name() -> None:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    modules = {str(file.relative_to(ROOT)): parse_source(file) for file in files}

    # Name what a function acts on (`load_ports`), or merge two functions that do the same.
    assert {name: files for name, files in list_places(modules).items() if len(files) > 1} == {}


def test_a_shared_name_is_noticed_and_a_command_is_not() -> None:
    command = 'COMMANDS = {"load-all": load_all}\ndef load_all(): ...'
    sources = {"cutover/a.py": "def load_all(): ...", "batch/b.py": "class load_all: ...", "batch/cli.py": command}

    assert list_places({file: ast.parse(source) for file, source in sources.items()}) == {
        "load_all": ["cutover/a.py", "batch/b.py"]
    }


def list_hidden_functions(module: ast.Module) -> Iterator[str]:
    """Yield the functions of a module that another function calls although a variable of it has the same name."""
    own = {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for function in (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)):
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        assigned = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
        called = {call.id for call in calls if isinstance(call, ast.Name)}
        yield from (f"{function.name}: {name}" for name in sorted(own & assigned & called))


def test_no_variable_hides_a_function_that_is_called() -> None:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]

    hidden = {str(file.relative_to(ROOT)): list(list_hidden_functions(parse_source(file))) for file in files}

    assert {file: names for file, names in hidden.items() if names} == {}


def test_a_hidden_function_is_noticed() -> None:
    text = "def is_open(): pass\ndef run():\n    is_open = any(is_open() for _ in [1])\n    return is_open\n"

    assert list(list_hidden_functions(ast.parse(text))) == ["run: is_open"]
