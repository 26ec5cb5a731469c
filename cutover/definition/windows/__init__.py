"""Where in event time: one `WindowFn` a kind. A new kind is a module here and a line in `kinds`."""
