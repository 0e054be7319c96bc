"""A model of generations.md: every interleaving of a few nodes, failures and joins, by search.

A node makes some transactions and leaves. In each it posts its part, computes the result
once all members of its generation have posted, and returns once all of them have computed. Deaths,
and live nodes that are declared lost, happen at any moment as long as the budget lasts. Messages
arrive in order, at any later moment. A node that comes again in place of a lost one is a new node
here: nothing that it does depends on its rank.

``python docs/formats/generations_model`` prints how many states there are, and fails with the
run that breaks an invariant.
"""

from __future__ import annotations

import sys

from generation_search import SIZES


def main() -> int:
    for size in SIZES:
        what = ", ".join(f"{name} {value}" for name, value in size._asdict().items())
        print(f"{what}: {size.search()} states")
    return 0


if __name__ == "__main__":
    sys.exit(main())
