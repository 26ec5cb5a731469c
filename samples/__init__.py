"""Input for the sample pipelines, made up from a seed: `python -m cutover.samples.NAME --help`."""
