"""What runs in the process of a node: ``python -m tfos.node``."""
