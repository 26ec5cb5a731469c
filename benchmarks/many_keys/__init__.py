"""Memory of the driver's two processes, and of a reader, with millions of keys in open windows."""
