"""From the text of a scenario file to what a runner is given."""
