"""Plans of Spark, read in three ways into one form, and judged by the rules of this room."""
