"""Panes and scenarios of any kind."""
