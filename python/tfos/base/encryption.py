"""What ``spark.tfos.encrypt`` means, for people."""

from __future__ import annotations

KEY = "spark.tfos.encrypt"

_IN_FORCE = {
    "auto": "Connections between hosts are encrypted, except those for the coordinator's pages",
    "true": "All TCP connections are encrypted, also within a host, except those for the "
    "coordinator's pages",
    "false": "Connections between hosts are not encrypted: a listener on the network can read "
    "rows and tensors",
}


def in_force(setting: str) -> str:
    """One sentence. ``setting``: ``auto``, ``true`` or ``false``."""
    return f"{_IN_FORCE[setting]} ({KEY}={setting})"
