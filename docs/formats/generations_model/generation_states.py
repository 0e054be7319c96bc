"""What a state of the model holds."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

#: What a node is doing. GONE: its program has ended, and it is not a member of later generations.
BETWEEN, POSTED, COMPUTED, WAITING, ADMITTING, LEFT, GONE, ABSENT = (
    "between",
    "posted",
    "computed",
    "waiting",
    "admitting",
    "left",
    "gone",
    "absent",
)


class Ready(NamedTuple):
    """The message of a node."""

    generation: int
    committed: int
    #: How many transactions it must return from until it has the state; 0: it has it.
    lacks: int
    leaves: bool
    admits: bool


class Group(NamedTuple):
    """The coordinator's message to those that are ready."""

    generation: int
    committed: int
    members: frozenset[int]
    admits: bool


class Node(NamedTuple):
    doing: str
    generation: int
    members: frozenset[int]
    committed: int = 0
    #: The contributors to the next transaction, if it has computed that; and to each it returned
    #: from. A node that joined has None for those before.
    computed: frozenset[int] | None = None
    results: tuple[frozenset[int] | None, ...] = ()
    lacks: int = 0
    #: How many of its next transactions give newcomers the state.
    shares: int = 0
    alive: bool = True
    #: A transaction that it returned from said so: the coordinator wants members to meet.
    must_admit: bool = False
    sent: tuple[Ready, ...] = ()
    inbox: tuple[Group, ...] = ()


class World(NamedTuple):
    nodes: tuple[Node, ...]
    #: What members have done in which generation: (generation, node, transaction, what, flag).
    #: The flag of POSTED: the transaction gives newcomers the state. Of COMPUTED: the coordinator
    #: has asked the members to meet.
    log: frozenset[tuple[int, int, int, str, bool]]
    generation: int
    gathering: bool
    ready: tuple[Ready | None, ...]
    lost: frozenset[int]
    left: frozenset[int]
    #: Those that were members of a generation.
    admitted: frozenset[int]
    committed: int
    failed: bool
    failures: int
    joins: int
    #: Nobody may come in: Spark feeds an epoch. So often one may yet begin.
    closed: bool
    epochs: int


def initial(nodes: int, failures: int, joins: int, epochs: int = 0) -> World:
    """``nodes`` members of generation 0, and as many more that may join."""
    members = frozenset(range(nodes))
    old = tuple(Node(BETWEEN, 0, members) for _ in range(nodes))
    new = tuple(Node(ABSENT, 0, frozenset()) for _ in range(joins))
    return World(
        nodes=old + new,
        log=frozenset(),
        generation=0,
        gathering=False,
        ready=(None,) * (nodes + joins),
        lost=frozenset(),
        left=frozenset(),
        admitted=members,
        committed=0,
        failed=False,
        failures=failures,
        joins=joins,
        closed=False,
        epochs=epochs,
    )


def put(world: World, number: int, node: Node, **changes: Any) -> World:
    nodes = world.nodes[:number] + (node,) + world.nodes[number + 1 :]
    return world._replace(nodes=nodes, **changes)


def tidied(world: World) -> World:
    """The same without what nobody can see any more, so that there are fewer states."""
    nodes = tuple(
        Node(node.doing, node.generation, frozenset(), alive=False)._replace(
            sent=() if number in world.lost else node.sent
        )
        if not node.alive
        else node
        for number, node in enumerate(world.nodes)
    )
    oldest = min(
        (node.generation for node in nodes if node.alive and node.doing in (BETWEEN, POSTED, COMPUTED)),
        default=sys.maxsize,
    )
    log = frozenset(entry for entry in world.log if entry[0] >= oldest)
    return world._replace(nodes=nodes, log=log)
