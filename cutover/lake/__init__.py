"""The lake: what lies where, and how it is read and committed without a JVM."""
