"""The batch path: the same records, read again from the log up to a cut. It is the truth, and knows no lateness."""
