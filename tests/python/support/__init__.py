"""What the tests share: programs for nodes, clusters of processes, fakes, comparisons and waits.

Executors and nodes have the folder above on their path too, so programs can be imported there.
"""
