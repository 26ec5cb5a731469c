"""The command line: one app, and the commands of the shared core."""
