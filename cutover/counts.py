"""Counts in sentences: nouns and verbs in the singular or the plural."""

_ENDS_WITH_SIBILANT = ("s", "x", "ch", "sh")


def count_noun(count: int, noun: str) -> str:
    """Format a number with its noun, in the plural unless it is one: `1 row`, `2 losses`, `0 rows of a window`."""
    head, of, rest = noun.partition(" of ")
    return f"{count:,} {head if count == 1 else pluralize(head)}{of}{rest}"


def pluralize(noun: str) -> str:
    """Return the plural of a noun: `rows`, `losses`, `entries`."""
    if noun.endswith(_ENDS_WITH_SIBILANT) and not noun.endswith("epoch"):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in set("aeiou") else f"{noun}s"


def count_clause(count: int, noun: str, singular_verb: str, plural_verb: str) -> str:
    """Format a number with its noun and verb: `1 row differs`, `2 rows differ`."""
    return f"{count_noun(count, noun)} {choose_form(count, singular_verb, plural_verb)}"


def choose_form(count: int, singular: str, plural: str) -> str:
    """Return the form of a verb or another word that belongs to a count."""
    return singular if count == 1 else plural
