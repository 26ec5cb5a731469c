"""The commands of an installation, and what a person sees while they work."""
