"""Positions of jobs that Cutover did not write."""
