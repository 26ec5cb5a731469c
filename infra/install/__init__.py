"""What the bootstrap fetches and checks: Java, JARs, the class archive."""
