"""Commands of the streaming path; `stream` registers those of `savepoint` and `replay` as well."""
