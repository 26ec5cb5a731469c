"""What a person sees while something takes its time: a spinner on a terminal, a line for each step elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

Tell = Callable[[str], None]


@contextmanager
def progress(first: str) -> Iterator[Tell]:
    """Show `first` on stderr, then whatever is told, for as long as the block lasts."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with console.status(first) as status:
            yield status.update
        return
    said: list[str] = []

    def line(text: str) -> None:
        if text not in said[-1:]:
            said.append(text)
            console.print(text, markup=False, soft_wrap=True)

    line(first)
    yield line
