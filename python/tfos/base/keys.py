"""The keys of a cluster (docs/formats/handshake.md): one for each purpose, made of its token, which
stays with the driver and its coordinator."""

from __future__ import annotations

import secrets

from tfos import _native

#: What the job that launches the nodes carries.
OF_LAUNCH = ("join", "feed", "tensors", "parameters")


def new_token() -> str:
    """A cluster's token, as hexadecimal digits."""
    return secrets.token_hex(32)


def key_for(token: str, purpose: str) -> str:
    """``purpose``: ``join``, ``feed``, ``tensors``, ``parameters``, ``ask``, ``read``, ``scrape``,
    ``steer`` or ``operate``."""
    return _native.key_for(token, purpose)


def keys_of_launch(token: str) -> dict[str, str]:
    """The keys that agents and nodes get, by purpose."""
    return {purpose: key_for(token, purpose) for purpose in OF_LAUNCH}
