"""Input for the sample pipelines, made up from a seed: `python -m samples.NAME --help`."""
