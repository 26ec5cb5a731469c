"""Batch path: the same records, read again from the log up to a cut. It is the reference, and knows no lateness."""
