"""How the tests run: order, examples, clocks, JVMs, waits."""
