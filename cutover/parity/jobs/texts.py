"""Texts that a job assembles: known parts, and unknown ones in braces."""

from cutover.parity.jobs.values import Constant, JobValue, UnknownValue, describe_value, get_taint, get_text


def get_sql_text(value: JobValue) -> str | None:
    """Return a SQL text, with its unknown parts marked as parameters; None for a value without a text."""
    if isinstance(value, UnknownValue) and value.is_template and "?" not in value.text:
        return mark_parameters(value.text)
    return get_text(value)


def join_texts(parts: list[JobValue]) -> JobValue:
    """Concatenate parts into a text with the taint of all."""
    if all(isinstance(part, Constant) for part in parts):
        return Constant("".join(str(part.value) for part in parts if isinstance(part, Constant)))
    taint = frozenset(source for part in parts for source in get_taint(part))
    return UnknownValue("".join(_mark_unknown(part) for part in parts), taint, is_template=True)


def _mark_unknown(part: JobValue) -> str:
    """Return the text of a part, in braces if it is unknown."""
    description = describe_value(part)
    is_text = isinstance(part, Constant) or (isinstance(part, UnknownValue) and part.is_template)
    is_marked = is_text or not description.strip() or description[0] + description[-1] == "{}"
    return description if is_marked else f"{{{description}}}"


def fill_template(pieces: list[str], values: list[JobValue]) -> JobValue:
    """Fill the gaps between a template's pieces with values."""
    parts: list[JobValue] = [Constant(pieces[0])]
    for index, piece in enumerate(pieces[1:]):
        parts += [values[index] if index < len(values) else UnknownValue(), Constant(piece)]
    return join_texts(parts)


def mark_parameters(text: str) -> str:
    """Replace each part in braces by an identifier that marks a parameter."""
    identifier_text, depth = "", 0
    for letter in text:
        if letter == "{":
            identifier_text += "__param_" if depth == 0 else "_"
            depth += 1
        elif letter == "}":
            depth -= 1
        else:
            identifier_text += letter if depth == 0 or letter.isalnum() else "_"
    return identifier_text
