"""Jobs that Cutover did not write, followed."""
