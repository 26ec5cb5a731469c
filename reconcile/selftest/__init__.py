"""How often the reconciler itself errs: differences planted in a copy of the lake, and what it says of them."""
