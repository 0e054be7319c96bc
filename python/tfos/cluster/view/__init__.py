"""What others see of a cluster: where, with which keys, and what is left of it at its end."""
