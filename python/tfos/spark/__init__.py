"""Spark: its jobs, executors, slots, installation and types."""
