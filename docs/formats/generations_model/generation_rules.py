"""The rules of generations.md, as steps from a state to the next ones."""

from __future__ import annotations

from collections.abc import Iterator

from generation_states import (
    ABSENT,
    ADMITTING,
    BETWEEN,
    COMPUTED,
    GONE,
    LEFT,
    POSTED,
    WAITING,
    Group,
    Node,
    Ready,
    World,
    put,
)


class Model:
    """``break_rule`` leaves a part of the protocol out, to show that the search would find it:

    - "barrier": a node returns as soon as it has computed,
    - "committed": ``group`` says nothing of R,
    - "leavers": R does not count those who leave,
    - "admits": one member that is after a step is enough to let newcomers in,
    - "state": those that have none go on by themselves."""

    def __init__(
        self, transactions: int, min_nodes: int = 1, break_rule: str = "", share: int = 1
    ) -> None:
        self.transactions = transactions
        self.min_nodes = min_nodes
        #: How many transactions give a newcomer the state.
        self.share = share
        self.break_rule = break_rule

    # -- steps that a fair run takes sooner or later

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        if world.failed:
            return
        for number, node in enumerate(world.nodes):
            if node.alive:
                yield from self._steps_of(world, number, node)
            elif number not in world.lost and node.doing != ABSENT:
                yield f"{number} is found dead", self._lose(world, number)
        if self._is_below(world) and self._members(world) and not world.closed:
            yield "the limit passes", world._replace(failed=True)
        if world.closed:
            yield "the epoch ends", world._replace(closed=False)
        for number, node in enumerate(world.nodes):
            if node.sent:
                message, rest = node.sent[0], node.sent[1:]
                after = put(world, number, node._replace(sent=rest))
                yield f"ready of {number} arrives: {message}", self._take(after, number, message)

    def _steps_of(self, world: World, number: int, node: Node) -> Iterator[tuple[str, World]]:
        operation = node.committed
        if node.doing == BETWEEN and node.must_admit:
            told = world.generation if world.gathering else -1
            wanted = max(told, node.generation + 1)
            ready = self._ready(node, wanted, admits=True)
            doing = node._replace(
                generation=wanted - 1, doing=ADMITTING, must_admit=False, sent=(*node.sent, ready)
            )
            yield f"{number} asks to admit", put(world, number, doing)
        if node.doing == BETWEEN and operation == self.transactions:
            yield f"{number} leaves", put(world, number, node._replace(doing=LEFT))
        elif node.doing == BETWEEN:
            # Also one that knows of a newcomer: it may be in the middle of a step.
            event = (node.generation, number, operation, POSTED, node.shares > 0)
            posted = node._replace(doing=POSTED, computed=None)
            yield f"{number} posts {operation}", put(world, number, posted, log=world.log | {event})
        elif node.doing == POSTED:
            shares = self._said(world, node, POSTED)
            if None not in shares:
                assert len(set(shares)) == 1, "members do different things"
                event = (node.generation, number, operation, COMPUTED, self._waits(world))
                computed = node._replace(doing=COMPUTED, computed=node.members)
                yield (
                    f"{number} computes {operation}",
                    put(world, number, computed, log=world.log | {event}),
                )
        elif node.doing == COMPUTED:
            knows = self._said(world, node, COMPUTED)
            if None not in knows or self.break_rule == "barrier":
                givers = (m for m in node.members if m != number and world.nodes[m].lacks == 0)
                assert node.lacks != 1 or any(True for _ in givers), "nobody has the state"
                returned = self._returned(node, any(knows))
                yield f"{number} returns from {operation}", put(world, number, returned)
        elif node.doing == LEFT and self._all_left(world, node):
            yield f"{number} is done", put(world, number, node._replace(doing=GONE))
        elif node.doing == WAITING and not node.members and self._is_over(world):
            yield f"{number} hears that it came too late", put(
                world, number, node._replace(doing=GONE, inbox=())
            )
        if node.doing in (WAITING, ADMITTING) and node.inbox:
            message, rest = node.inbox[0], node.inbox[1:]
            opened = node._replace(inbox=rest)
            yield f"{number} hears {message}", put(world, number, self._join(opened, message))
        yield from self._give_up(world, number, node)

    def _said(self, world: World, node: Node, what: str) -> list[bool | None]:
        """What each member of the node's generation has said with its next transaction; None: not
        that far."""
        keys = ((node.generation, member, node.committed, what) for member in node.members)
        return [next((entry[4] for entry in world.log if entry[:4] == key), None) for key in keys]

    def _give_up(self, world: World, number: int, node: Node) -> Iterator[tuple[str, World]]:
        """Because the coordinator has said so, or because a connection broke."""
        last = node.sent[-1] if node.sent else None
        told = world.generation if world.gathering else -1
        if node.doing in (POSTED, COMPUTED, LEFT):
            broken = any(self._has_gone(world, m, node.generation) for m in node.members)
            if told > node.generation or broken:
                wanted = max(told, node.generation + 1)
                leaves = node.doing == LEFT
                ready = self._ready(node, wanted, leaves=leaves)
                doing = GONE if leaves else WAITING
                given_up = node._replace(doing=doing, generation=wanted - 1, sent=(*node.sent, ready)
                )
                yield f"{number} gives up for {wanted}", put(world, number, given_up)
        elif node.doing == BETWEEN and told > node.generation:
            # It waits for rows meanwhile.
            ready = self._ready(node, told)
            follows = node._replace(doing=WAITING, generation=told - 1, sent=(*node.sent, ready))
            yield f"{number} follows to {told}", put(world, number, follows)
        elif node.doing in (WAITING, ADMITTING) and node.members and told > node.generation + 1:
            # Another generation was opened while it waited. What was said before comes before.
            if not node.inbox and (last is None or last.generation < told):
                ready = self._ready(node, told, admits=node.doing == ADMITTING)
                again = node._replace(generation=told - 1, inbox=(), sent=(*node.sent, ready)
                )
                yield f"{number} waits for {told}", put(world, number, again)

    def _ready(
        self, node: Node, generation: int, leaves: bool = False, admits: bool = False
    ) -> Ready:
        return Ready(generation, node.committed, node.lacks, leaves, admits)

    def _has_gone(self, world: World, number: int, generation: int) -> bool:
        """Whether its connections of a generation are closed."""
        node = world.nodes[number]
        waits = node.generation == generation and node.doing in (WAITING, ADMITTING)
        return not node.alive or node.generation > generation or waits

    def _all_left(self, world: World, node: Node) -> bool:
        """All members of its generation have said so, and it has heard them."""
        return all(
            world.nodes[m].doing in (LEFT, GONE) and world.nodes[m].generation == node.generation
            for m in node.members
        )

    def _waits(self, world: World) -> bool:
        """Whether the coordinator has asked the members to meet after a step."""
        return not world.closed and (bool(self._newcomers(world)) or self._is_below(world))

    def _join(self, node: Node, group: Group) -> Node:
        if not node.members:
            past = (None,) * group.committed
            return node._replace(
                doing=BETWEEN,
                generation=group.generation,
                members=group.members,
                committed=group.committed,
                results=past,
                shares=self.share,
            )
        behind = node.committed == group.committed - 1
        if self.break_rule == "committed":
            behind = False
        else:
            assert behind or node.committed == group.committed, f"{node} hears {group}"
            assert not behind or node.computed is not None, f"{node} hears {group}"
        joined = node._replace(generation=group.generation, members=group.members)
        if behind:
            return self._returned(joined, False)
        # It asks once. If not all have asked, it goes on, and hears of it again later.
        shares = self.share if group.admits and node.doing == ADMITTING else node.shares
        return joined._replace(doing=BETWEEN, computed=None, shares=shares)

    def _returned(self, node: Node, knows: bool) -> Node:
        assert node.computed is not None
        shares = max(0, node.shares - 1)
        # At its end a program lets nobody in.
        may_admit = shares == 0 and node.committed + 1 + self.share <= self.transactions
        return node._replace(
            doing=BETWEEN,
            committed=node.committed + 1,
            results=(*node.results, node.computed),
            computed=None,
            lacks=max(0, node.lacks - 1),
            shares=shares,
            must_admit=(node.must_admit or knows) and may_admit,
        )

    # -- the coordinator

    def _members(self, world: World) -> frozenset[int]:
        """Those that were let in, are not lost and have not ended."""
        return frozenset(
            number
            for number in world.admitted - world.lost - world.left
            if world.nodes[number].doing != GONE or world.nodes[number].sent
        )

    def _newcomers(self, world: World) -> frozenset[int]:
        """Those that wait to be let in."""
        return frozenset(
            number
            for number, ready in enumerate(world.ready)
            if ready is not None and number not in world.admitted
        )

    def _is_below(self, world: World) -> bool:
        return len(world.admitted - world.lost) < self.min_nodes

    def _lose(self, world: World, number: int) -> World:
        ready = world.ready[:number] + (None,) + world.ready[number + 1 :]
        node = world.nodes[number]
        world = world._replace(lost=world.lost | {number}, ready=ready)
        if node.doing == GONE and not node.sent:
            return world  # It had ended before.
        if number not in world.admitted:
            return world  # It only waited.
        if not world.admitted - world.lost:
            return world._replace(failed=True)  # Nobody is left.
        return self._complete(self._open(world))

    def _open(self, world: World) -> World:
        if world.gathering:
            return world
        # What a node that waits to join has said stays.
        ready = tuple(
            each if number not in world.admitted else None
            for number, each in enumerate(world.ready)
        )
        return world._replace(generation=world.generation + 1, gathering=True, ready=ready)

    def _take(self, world: World, number: int, message: Ready) -> World:
        if number in world.lost:
            return world
        ready = world.ready[:number] + (message,) + world.ready[number + 1 :]
        if number not in world.admitted:
            return self._complete(world._replace(ready=ready))
        if self.break_rule != "leavers" or not message.leaves:
            world = world._replace(committed=max(world.committed, message.committed))
        if message.leaves:
            world = world._replace(left=world.left | {number})
        if not world.gathering and message.generation == world.generation + 1:
            world = self._open(world)
            ready = world.ready[:number] + (message,) + world.ready[number + 1 :]
        if world.gathering and message.generation == world.generation and not message.leaves:
            world = world._replace(ready=ready)
        return self._complete(world)

    def _complete(self, world: World) -> World:
        """Forms the generation that is gathered, once all members are ready."""
        if not world.gathering:
            return world
        members = self._members(world)
        if not members:
            return world._replace(gathering=False)  # All others have ended in order.
        answers = [world.ready[number] for number in members]
        if any(a is None or a.generation != world.generation for a in answers):
            return world
        has_state = any(a.lacks <= world.committed - a.committed for a in answers)
        if not has_state and self.break_rule != "state":
            return world._replace(failed=True)  # Nobody is left who has the state.
        admits = all(answer.admits for answer in answers)
        if self.break_rule == "admits":
            admits = any(answer.admits for answer in answers)
        if admits and not world.closed:
            members |= self._newcomers(world)
            if len((members | world.admitted) - world.lost) < self.min_nodes:
                return world  # It waits for others to come, or for the limit.
        group = Group(world.generation, world.committed, members, admits)
        nodes = tuple(
            node._replace(inbox=(group,)) if number in members else node
            for number, node in enumerate(world.nodes)
        )
        ready = tuple(
            None if number in members else each for number, each in enumerate(world.ready)
        )
        return world._replace(
            nodes=nodes, gathering=False, ready=ready, admitted=world.admitted | members
        )

    # -- what nobody wants

    def failures(self, world: World) -> Iterator[tuple[str, World]]:
        if world.failed:
            return
        if world.epochs and not world.closed:
            begun = world._replace(closed=True, epochs=world.epochs - 1)
            yield "an epoch begins", self._complete(begun)
        for number, node in enumerate(world.nodes):
            if node.doing == ABSENT:
                if world.joins:
                    yield from self._come(world, number, node)
            elif world.failures and node.alive and number not in world.lost:
                fewer = world._replace(failures=world.failures - 1)
                dead = node._replace(alive=False)
                yield f"{number} dies", put(fewer, number, dead)
                if node.doing != GONE:
                    yield f"{number} is declared lost", self._lose(fewer, number)

    def _come(self, world: World, number: int, node: Node) -> Iterator[tuple[str, World]]:
        waits = node._replace(
            doing=WAITING, generation=-1, lacks=self.share, sent=(Ready(0, 0, self.share, False, False),)
        )
        after = put(world, number, waits, joins=world.joins - 1)
        yield f"{number} comes", after

    # -- what must hold

    def check(self, world: World) -> str:
        """What is wrong with a state; empty if nothing is."""
        known = [
            (number, node)
            for number, node in enumerate(world.nodes)
            if node.alive and number not in world.lost
        ]
        for number, node in known:
            for operation, result in enumerate(node.results):
                if result is None:
                    continue
                if number not in result:
                    return f"{number} is not part of its transaction {operation}"
                for other, another in known:
                    if len(another.results) > operation:
                        theirs = another.results[operation]
                        if theirs is not None and theirs != result:
                            return (
                                f"transaction {operation} is one of {sorted(result)} to {number}, "
                                f"and of {sorted(theirs)} to {other}"
                            )
        return ""

    def check_end(self, world: World) -> str:
        """What is wrong with a state in which nothing more happens by itself."""
        if world.failed:
            return ""
        for number, node in enumerate(world.nodes):
            if not node.alive or number in world.lost or node.doing in (ABSENT, GONE):
                continue
            return f"{number} waits for ever: {node}"
        return ""

    def _is_over(self, world: World) -> bool:
        """All that were let in have ended, or are lost."""
        return not self._members(world)

