"""A model of how attempts at one partition take over from each other (../feed-protocol.md, "What a
node already has"), and a search through all that can happen in it.

    python docs/formats/models/take_over.py        what holds under the rules, and under worse ones

Attempts bring items to two nodes: two attempts two items, or three attempts one. Spark starts them
one after the other, also while earlier ones run: copies by speculation, and tasks of a stage that
it repeats. Any of them may die at any moment, and what it has sent then arrives or is lost.
Messages of one connection keep their order; those of different connections do not. An attempt may
find that it can't reach a node which runs. Nodes do not die here: the items of a lost node are
gone, whatever attempts do.

The search is exhaustive and breadth first, so a trace that it shows is a shortest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

NODES = (0, 1)


@dataclass(frozen=True)
class Rules:
    """What is tried. The defaults are the protocol's."""

    #: Which of two attempts a node takes for the later one: the one with the higher id, or the one
    #: that it has heard of last.
    by_arrival: bool = False
    #: What an attempt does that can't reach a node which runs: it fails, or does without the node.
    leaves_out: bool = False
    attempts: int = 2
    items: int = 2


class Node(NamedTuple):
    owner: int = -1  # The attempt that it takes for the latest.
    overtaken: frozenset[int] = frozenset()  # By arrival only: those that came before the owner.
    session: int = -1  # The attempt that may bring chunks.
    accepted: frozenset[int] = frozenset()


class Attempt(NamedTuple):
    phase: str = "not started"  # then "asks", "feeds", and "over" or "ended well"
    unanswered: frozenset[int] = frozenset()  # COUNT was sent there.
    reached: frozenset[int] = frozenset()
    opened: frozenset[int] = frozenset()
    skipped: frozenset[int] = frozenset()  # Items that some node has.
    sent: frozenset[int] = frozenset()


class State(NamedTuple):
    nodes: tuple[Node, ...]
    attempts: tuple[Attempt, ...]
    #: By attempt and node: what is on its way there, and back. The oldest message first.
    there: tuple[tuple[tuple, ...], ...]
    back: tuple[tuple[tuple, ...], ...]
    #: How often each item was accepted.
    copies: tuple[int, ...]


#: What must never be, by the name of the invariant.
ONCE = "no row is accepted twice"
ALL = "an attempt that ends well leaves no row out"
LAST = "the latest attempt is not told that another one took over"


@dataclass(frozen=True)
class Outcome:
    """What a search found."""

    states: int
    #: By invariant that can break: the steps of a shortest way there.
    broken: dict[str, list[str]]


def initial(rules: Rules) -> State:
    channels = tuple(tuple(() for _ in NODES) for _ in range(rules.attempts))
    return State(
        tuple(Node() for _ in NODES),
        tuple(Attempt() for _ in range(rules.attempts)),
        channels,
        channels,
        (0,) * rules.items,
    )


def successors(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """What may happen next, one thing at a time."""
    for a, attempt in enumerate(state.attempts):
        if attempt.phase == "not started":
            yield from _starts(state, a, rules)
            break  # Spark gives out ids in the order in which it starts attempts.
    for a, attempt in enumerate(state.attempts):
        if attempt.phase in ("asks", "feeds"):
            yield f"attempt {a} dies", _with_attempt(state, a, attempt._replace(phase="over"))
            yield from _sends(state, a)
            yield from _ends(state, a)
            for n in NODES:
                if state.back[a][n]:
                    yield _attempt_hears(state, a, n)
        for n in NODES:
            if not state.there[a][n]:
                continue
            yield _node_hears(state, a, n, rules)
            if attempt.phase == "over":
                yield (
                    f"what attempt {a} sent to node {n} is lost",
                    state._replace(there=_put(state.there, a, n, ())),
                )


def _starts(state: State, a: int, rules: Rules) -> Iterator[tuple[str, State]]:
    for cut in (None, *NODES):
        reached = frozenset(n for n in NODES if n != cut)
        if cut is not None and not rules.leaves_out:
            failed = Attempt(phase="over")
            yield f"attempt {a} can't reach node {cut}, fails", _with_attempt(state, a, failed)
            continue
        there = state.there
        for n in reached:
            there = _put(there, a, n, (("COUNT",),))
        asking = Attempt(phase="asks", unanswered=reached, reached=reached)
        without = "" if cut is None else f", and leaves node {cut} out"
        yield f"attempt {a} asks{without}", _with_attempt(state._replace(there=there), a, asking)


def _sends(state: State, a: int) -> Iterator[tuple[str, State]]:
    attempt = state.attempts[a]
    missing = [i for i in range(len(state.copies)) if i not in attempt.skipped | attempt.sent]
    if attempt.phase != "feeds" or not missing:
        return
    item = missing[0]
    for n in attempt.opened:
        there = _put(state.there, a, n, (*state.there[a][n], ("CHUNK", item)))
        sent = attempt._replace(sent=attempt.sent | {item})
        yield (
            f"attempt {a} sends item {item} to node {n}",
            _with_attempt(state._replace(there=there), a, sent),
        )


def _ends(state: State, a: int) -> Iterator[tuple[str, State]]:
    """ENDED comes when a node has taken all that was sent, in a session that nobody has ended."""
    attempt = state.attempts[a]
    quiet = not any(state.there[a]) and not any(state.back[a])
    if (
        attempt.phase != "feeds"
        or not quiet
        or len(attempt.skipped | attempt.sent) < len(state.copies)
    ):
        return
    if all(state.nodes[n].session == a for n in attempt.opened):
        yield (
            f"attempt {a} ends well",
            _with_attempt(state, a, attempt._replace(phase="ended well")),
        )


def _attempt_hears(state: State, a: int, n: int) -> tuple[str, State]:
    attempt = state.attempts[a]
    message, *rest = state.back[a][n]
    state = state._replace(back=_put(state.back, a, n, tuple(rest)))
    step = f"attempt {a} hears {message[0]} of node {n}"
    if message[0] == "SUPERSEDED":
        return step, _with_attempt(state, a, attempt._replace(phase="over"))
    if message[0] == "OPENED":
        return step, _with_attempt(state, a, attempt._replace(opened=attempt.opened | {n}))
    attempt = attempt._replace(
        unanswered=attempt.unanswered - {n}, skipped=attempt.skipped | message[1]
    )
    if not attempt.unanswered:
        attempt = attempt._replace(phase="feeds")
        there = state.there
        for reached in attempt.reached:
            there = _put(there, a, reached, (*there[a][reached], ("OPEN",)))
        state = state._replace(there=there)
    return step, _with_attempt(state, a, attempt)


def _node_hears(state: State, a: int, n: int, rules: Rules) -> tuple[str, State]:
    node = state.nodes[n]
    message, *rest = state.there[a][n]
    state = state._replace(there=_put(state.there, a, n, tuple(rest)))
    step = f"node {n} hears {message[0]} of attempt {a}"
    if message[0] == "CHUNK":
        if node.session != a:
            return f"{step}, and discards it", state
        item = message[1]
        copies = list(state.copies)
        copies[item] += 1
        node = node._replace(accepted=node.accepted | {item})
        return step, _with_node(state._replace(copies=tuple(copies)), n, node)
    if a in node.overtaken if rules.by_arrival else a < node.owner:
        return f"{step}: SUPERSEDED", _answer(state, a, n, ("SUPERSEDED",))
    if a != node.owner:
        if rules.by_arrival and node.owner >= 0:
            node = node._replace(overtaken=node.overtaken | {node.owner})
        if node.session >= 0:
            state = _answer(state, node.session, n, ("SUPERSEDED",))
        node = node._replace(owner=a, session=-1)
    if message[0] == "OPEN":
        node = node._replace(session=a)
        return step, _with_node(_answer(state, a, n, ("OPENED",)), n, node)
    return step, _with_node(_answer(state, a, n, ("COUNTED", node.accepted)), n, node)


def _answer(state: State, a: int, n: int, message: tuple) -> State:
    if state.attempts[a].phase not in ("asks", "feeds"):
        return state  # Nobody hears it.
    return state._replace(back=_put(state.back, a, n, (*state.back[a][n], message)))


def _with_attempt(state: State, a: int, attempt: Attempt) -> State:
    attempts = list(state.attempts)
    if attempt.phase in ("over", "ended well"):  # Nothing else of it matters any more.
        nothing = tuple(() for _ in NODES)
        state = state._replace(back=(*state.back[:a], nothing, *state.back[a + 1 :]))
        attempt = Attempt(phase=attempt.phase)
    attempts[a] = attempt
    return state._replace(attempts=tuple(attempts))


def _with_node(state: State, n: int, node: Node) -> State:
    return state._replace(nodes=(*state.nodes[:n], node, *state.nodes[n + 1 :]))


def _put(
    channels: tuple[tuple[tuple, ...], ...], a: int, n: int, messages: tuple
) -> tuple[tuple[tuple, ...], ...]:
    row = (*channels[a][:n], messages, *channels[a][n + 1 :])
    return (*channels[:a], row, *channels[a + 1 :])


def broken_invariants(state: State) -> Iterator[str]:
    """The names of those that do not hold in this state."""
    if max(state.copies) > 1:
        yield ONCE
    # What one says that ended well holds for good: nobody takes an item back.
    if any(a.phase == "ended well" for a in state.attempts) and min(state.copies) == 0:
        yield ALL
    started = [a for a, attempt in enumerate(state.attempts) if attempt.phase != "not started"]
    if started and any(("SUPERSEDED",) in messages for messages in state.back[started[-1]]):
        yield LAST


def search(rules: Rules) -> Outcome:
    """Goes through every state that can be reached; does not go on from one that is broken."""
    start = initial(rules)
    came_from: dict[State, tuple[str, State] | None] = {start: None}
    broken: dict[str, list[str]] = {}
    to_visit = deque([start])
    while to_visit:
        state = to_visit.popleft()
        faults = list(broken_invariants(state))
        for fault in faults:
            if fault not in broken:
                broken[fault] = _steps_to(state, came_from)
        if faults:
            continue
        for step, after in successors(state, rules):
            if after not in came_from:
                came_from[after] = (step, state)
                to_visit.append(after)
    return Outcome(len(came_from), broken)


def _steps_to(state: State, came_from: dict[State, tuple[str, State] | None]) -> list[str]:
    steps = []
    while (came := came_from[state]) is not None:
        step, state = came
        steps.append(step)
    return steps[::-1]


def main() -> None:
    for title, rules in {
        "the protocol's rules": Rules(),
        "the same with three attempts": Rules(attempts=3, items=1),
        "the later one is whoever comes last": Rules(by_arrival=True),
        "a node that can't be reached is left out": Rules(leaves_out=True),
    }.items():
        outcome = search(rules)
        print(f"{title}: {outcome.states} states")
        for invariant in (ONCE, ALL, LAST):
            steps = outcome.broken.get(invariant)
            print(f"  {invariant}: {'yes' if steps is None else 'NO'}")
            for number, step in enumerate(steps or (), 1):
                print(f"    {number}. {step}")


if __name__ == "__main__":
    main()
