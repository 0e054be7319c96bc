"""Shared libraries: where they are, and whether they go with this installation."""
