"""Commands of the streaming path; `stream` registers those of `replay` as well."""
