"""Alerts: pure functions over facts, one module for each kind of fact."""
