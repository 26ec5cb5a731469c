"""Unit tests of following a job."""
