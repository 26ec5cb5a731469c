"""Number of examples of a test whose examples cost seconds each: few with every change, many at night."""

from hypothesis import HealthCheck, Phase, settings

NIGHTLY = "nightly"
SUPPRESSED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
EXAMPLES, MANY_EXAMPLES = 30, 100
"""Examples of a property that names no number: with every change, and at night or in mutated copies."""

THOROUGH = "thorough"
"""Profile of `make mutations`: the same examples each time, as many as at night."""

LONGEST = 100
"""Steps of a state machine at night; `few` says how many there are with every change."""


def register() -> None:
    """Register the profiles. Without a name the examples are the same each time; at night `SEED` draws new ones."""
    for name, examples in (("default", EXAMPLES), (THOROUGH, MANY_EXAMPLES)):
        settings.register_profile(
            name,
            max_examples=examples,
            derandomize=True,
            deadline=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=[HealthCheck.too_slow],  # how slowly values are drawn is a fact about the machine
            print_blob=True,
        )
    settings.register_profile(
        NIGHTLY,
        max_examples=MANY_EXAMPLES,
        derandomize=False,
        database=None,  # the seed alone says what is drawn
        deadline=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        print_blob=True,
    )
    if not is_nightly():
        settings.load_profile("default")


def is_nightly() -> bool:
    """Return whether the profile of the night is in force."""
    return settings.get_current_profile_name() == NIGHTLY


def depth(few: int, many: int, *, steps: int = LONGEST) -> settings:
    """Return settings of `few` examples, at night of `many`.

    Args:
        few: Examples with every change.
        many: Examples at night.
        steps: Steps of a state machine's example, at most.
    """
    return settings(
        max_examples=many if is_nightly() else few,
        stateful_step_count=steps,
        suppress_health_check=SUPPRESSED,
    )
