"""What a person sees while something takes its time: a spinner on a terminal, a line for each step elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

Tell = Callable[[str], None]


@contextmanager
def progress(first_text: str) -> Iterator[Tell]:
    """Show `first_text` on stderr, then whatever is told, for as long as the block lasts."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with console.status(first_text) as status:
            yield status.update
        return
    lines: list[str] = []

    def line(text: str) -> None:
        if text not in lines[-1:]:
            lines.append(text)
            console.print(text, markup=False, soft_wrap=True)

    line(first_text)
    yield line
