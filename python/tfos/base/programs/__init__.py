"""How a program of the user gets to the nodes, and back from them what it returns."""
