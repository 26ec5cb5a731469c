"""The epoch log as its readers see it."""
