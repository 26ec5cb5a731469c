"""The verdict, and the history in which verdicts speak."""
