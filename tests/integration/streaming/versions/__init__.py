"""Forks, replays and swaps."""
