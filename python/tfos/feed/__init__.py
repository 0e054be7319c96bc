"""Rows from Spark's tasks to nodes, and results back."""
