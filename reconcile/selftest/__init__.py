"""Error rates of the reconciler itself, measured with defects planted in a copy of the lake.

`trials` is the sequence: each trial draws defects with the expected result (`plants`), plants them in
a `copied_lake`, and compares the result with it. Its outcome is a `SelfTest`, which is
recorded.
"""
