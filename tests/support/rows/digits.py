"""The digits of a double in plain Python, to compare with those that Spark makes."""

from fractions import Fraction

from cutover.definition.measures.doubles import DIGIT_NAMES, DIGITS, LOWEST, PLACES


def digits_of(value: float) -> dict[str, int]:
    """Cut a double as Spark does: column to digit of 30 binary places, lowest first."""
    rounded = [round(Fraction(value) / Fraction(2) ** (LOWEST + PLACES * place)) for place in range(DIGITS + 1)]
    return {name: rounded[d] - rounded[d + 1] * 2**PLACES for d, name in enumerate(DIGIT_NAMES)}
