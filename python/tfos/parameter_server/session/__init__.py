"""Training of a TF1-style session over the partitions of an RDD, through a parameter server."""
