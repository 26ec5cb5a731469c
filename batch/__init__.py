"""Batch path: the same records, read again from the log up to a cut. It is the reference, and knows no lateness.

`recompute` is the sequence of a run: `read` pins an epoch of the stream, aggregates the new offsets and updates the
index, `windows` and the pure `plan` choose the windows, `write` computes and publishes them. `repair` computes
windows as a draft first.
"""
