"""Feeding the nodes of a cluster from Spark: epochs, feed jobs, and the count of what became of the
rows."""
