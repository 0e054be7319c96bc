"""A model of generations.md: every interleaving of a few nodes, failures and joins, by search.

A node makes some transactions and leaves. In each it posts its part, computes the result
once all members of its generation have posted, and returns once all of them have computed. Deaths,
and live nodes that are declared lost, happen at any moment as long as the budget lasts. Messages
arrive in order, at any later moment.

``python docs/formats/generations_model`` prints how many states there are, and fails with the
run that breaks an invariant.
"""

from __future__ import annotations

import sys

from generation_rules import Model
from generation_search import SIZES, search
from generation_states import initial


def main() -> int:
    for transactions, nodes, failures, joins in SIZES:
        states = search(Model(transactions), initial(nodes, failures, joins))
        print(
            f"{transactions} transactions, {nodes} nodes, {failures} failures, {joins} joins: "
            f"{states} states"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
