"""Generators of the sample pipelines' input, reproducible by a seed: `python -m cutover.samples.NAME --help`."""
