"""The position of a ``fit`` in the data of an epoch that Spark feeds: which rows all nodes have
trained on, up to the step whose weights a checkpoint has."""
