"""The command line: `app` finds the commands of every package, the other modules are those of the shared core."""
