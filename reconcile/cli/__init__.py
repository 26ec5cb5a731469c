"""Commands of the reconciler, a module per subject; those about stored results are in `recorded`.

`arguments` parses what several of them accept, and `show` formats comparisons.
"""
