"""Bytes that one node gives to others, which unpickle them. A pickle runs what its author wants,
and UCX protects no bytes, so they carry a proof that a node of this cluster wrote them.

Errors: as the functions say. Threads: any.
"""

from __future__ import annotations

import hashlib
import hmac

from tfos.base import training_nodes
from tfos.errors import BadInputError, TfosError

_SEAL_BYTES = hashlib.sha256().digest_size


def sealed(text: bytes) -> bytes:
    """The text with that proof."""
    return _seal_of(text) + text


def opened(text: bytes) -> bytes:
    """What was sealed. Raises TfosError if it is something else."""
    seal, text = text[:_SEAL_BYTES], text[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal_of(text)):
        raise TfosError(
            "the state that another node gave was changed on its way: the network between the "
            "nodes is not to be trusted. Run without rdma, so that it is encrypted"
        )
    return text


def _seal_of(text: bytes) -> bytes:
    known = training_nodes.known()
    if known is None:
        raise BadInputError("only the nodes of a cluster share a state")
    key = hmac.digest(bytes.fromhex(known.key), b"tfos state of a node", hashlib.sha256)
    return hmac.digest(key, text, hashlib.sha256)
