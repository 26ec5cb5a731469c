"""Panes on the stream: the operator that fires triggers, its rows in the epoch log, and the changelog topic."""
