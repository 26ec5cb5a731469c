"""Accuracy of the answers of young windows."""
