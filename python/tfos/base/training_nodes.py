"""Which nodes this process trains with: its node says so, and :mod:`tfos.collective` asks. That
module imports TensorFlow, which a program may not need, so this is apart from it.

Threads: any; a program's first collective operation comes after its node has said it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class TrainingNodes:
    """What :class:`tfos.collective.members.Group` is made of."""

    nodes: Sequence[Mapping[str, Any]]
    node_id: int
    key: str
    listener: int
    options: Mapping[str, Any]
    #: Then there is to be no group.
    may_lose_nodes: bool = False


_known: TrainingNodes | None = None


def use(
    nodes: Sequence[Mapping[str, Any]],
    node_id: int,
    key: str,
    listener: int,
    *,
    may_lose_nodes: bool = False,
    **options: Any,
) -> None:
    """Records which nodes this process trains with. Connects nothing yet. Arguments are those of
    :class:`tfos.collective.members.Group`."""
    global _known
    _known = TrainingNodes(nodes, node_id, key, listener, options, may_lose_nodes)


def known() -> TrainingNodes | None:
    """What was said; None where this process is not a node."""
    return _known


def set_option(name: str, value: Any) -> None:
    """Changes one, where something was said."""
    global _known
    if _known is not None:
        _known = replace(_known, options={**_known.options, name: value})
