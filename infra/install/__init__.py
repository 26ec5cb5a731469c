"""Parts of the environment that the bootstrap installs and checks: Java, JARs, the class archive."""
