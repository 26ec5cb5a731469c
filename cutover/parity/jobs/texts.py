"""Texts that a job puts together: what is not known in them stands in braces."""

from cutover.parity.jobs.values import Constant, JobValue, UnknownValue, describe, get_taint


def join_texts(parts: list[JobValue]) -> JobValue:
    """Return a text of several parts, with what any of them was computed from."""
    if all(isinstance(part, Constant) for part in parts):
        return Constant("".join(str(part.value) for part in parts if isinstance(part, Constant)))
    taint = frozenset(mark for part in parts for mark in get_taint(part))
    return UnknownValue("".join(_mark_unknown(part) for part in parts), taint)


def _mark_unknown(part: JobValue) -> str:
    """Return the text of a part; one that is not known stands in braces."""
    said = describe(part)
    is_marked = isinstance(part, Constant) or not said.strip() or "{" in said
    return said if is_marked else f"{{{said}}}"


def fill_text(pieces: list[str], values: list[JobValue]) -> JobValue:
    """Put values between the pieces of a template."""
    parts: list[JobValue] = [Constant(pieces[0])]
    for place, piece in enumerate(pieces[1:]):
        parts += [values[place] if place < len(values) else UnknownValue(), Constant(piece)]
    return join_texts(parts)
