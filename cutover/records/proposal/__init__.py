"""What `cutover init` proposes: a schema, a pace, a file to start from."""
