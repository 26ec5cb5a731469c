"""Causes of differences, and their proof by folding the records of the log again."""
