"""Serving of results to readers, and removal of files that no reader needs."""
