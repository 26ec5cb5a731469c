"""Commands of an installation: `installation`, `demo` and `drill`."""
