"""All states that can be reached, one after the other."""

from __future__ import annotations

from typing import NamedTuple

from generation_rules import Model
from generation_states import World, initial, tidied


class Size(NamedTuple):
    """What is searched: see :class:`Model`, and :func:`initial`."""

    transactions: int
    nodes: int
    failures: int
    joins: int = 0
    min_nodes: int = 1
    share: int = 1
    epochs: int = 0

    def search(self) -> int:
        model = Model(self.transactions, min_nodes=self.min_nodes, share=self.share)
        return search(model, initial(self.nodes, self.failures, self.joins, self.epochs))

#: What can be searched in seconds.
SIZES = (
    Size(transactions=1, nodes=3, failures=2),
    Size(transactions=2, nodes=3, failures=1),
    Size(transactions=2, nodes=2, failures=2),
    Size(transactions=2, nodes=2, failures=2, joins=1),
    Size(transactions=3, nodes=1, failures=1, joins=1, share=2),
    Size(transactions=2, nodes=1, failures=1, joins=2, min_nodes=2),
    Size(transactions=3, nodes=2, failures=1, joins=1, min_nodes=2),
    Size(transactions=2, nodes=2, failures=1, joins=1, epochs=1),
    Size(transactions=2, nodes=1, failures=1, joins=2, min_nodes=2, epochs=1),
)


def search(model: Model, start: World) -> int:
    """How many states there are. Raises AssertionError with the run to one that breaks a rule, or
    from which a fair run need not end."""
    numbers = {tidied(start): 0}
    worlds = [tidied(start)]
    came_from: list[tuple[int, str]] = [(-1, "")]
    fair: list[list[int]] = []
    while len(fair) < len(worlds):
        number = len(fair)
        world = worlds[number]
        try:
            steps = [(what, tidied(after)) for what, after in model.steps(world)]
        except AssertionError as error:
            raise AssertionError(_run(came_from, number, str(error))) from None
        steps = [step for step in steps if step[1] != world]
        if wrong := model.check(world) or ("" if steps else model.check_end(world)):
            raise AssertionError(_run(came_from, number, wrong))
        failures = [(what, tidied(after)) for what, after in model.failures(world)]
        for what, after in [*steps, *failures]:
            if after not in numbers:
                numbers[after] = len(worlds)
                worlds.append(after)
                came_from.append((number, what))
        fair.append([numbers[after] for _, after in steps])
    _check_no_cycles(fair, came_from)
    return len(worlds)


def _check_no_cycles(fair: list[list[int]], came_from: list[tuple[int, str]]) -> None:
    """A run without further failures ends, as none comes to the same state again."""
    before = [0] * len(fair)
    for following in fair:
        for after in following:
            before[after] += 1
    first = [number for number, count in enumerate(before) if count == 0]
    while first:
        for after in fair[first.pop()]:
            before[after] -= 1
            if before[after] == 0:
                first.append(after)
    for number, count in enumerate(before):
        assert count == 0, _run(came_from, number, "a run comes here again and again")


def _run(came_from: list[tuple[int, str]], number: int, wrong: str) -> str:
    steps = []
    while number > 0:
        number, what = came_from[number]
        steps.append(what)
    return wrong + "".join(f"\n  {step}" for step in reversed(steps))
