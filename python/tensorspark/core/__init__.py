"""What programs import: the session, the combiners, the partitioner."""
