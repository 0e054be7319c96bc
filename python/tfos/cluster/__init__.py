"""The driver's side of a cluster of nodes."""
