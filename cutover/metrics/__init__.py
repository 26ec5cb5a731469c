"""Metrics: what is told, under which names, and files of them that are whole or not there. None of it ends a run."""
