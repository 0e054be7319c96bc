"""The commands of ``tfos`` that are written in Python."""
