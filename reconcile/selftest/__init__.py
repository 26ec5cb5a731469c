"""Error rates of the reconciler itself, measured with defects planted in a copy of the lake.

`self_test` is the sequence: each `trial` draws defects (`plants`, `drawn_plants`), plants them in a `copied_lake`,
and compares the `trial_result` with the `truth`. `outcome` is what a self-test reports and stores.
"""
