"""Programs for :class:`support.two_nodes.TwoNodes`."""
