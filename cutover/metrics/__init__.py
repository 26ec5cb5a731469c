"""Metrics: `families` names them, `tasks` writes those of a run. Failures are logged and never fail a run."""
