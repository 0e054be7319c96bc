"""Markers that older programs put between rows. Partition ends travel outside of the rows now."""


class Marker:
    """Base of all markers."""


class EndPartition(Marker):
    """The end of a partition."""
