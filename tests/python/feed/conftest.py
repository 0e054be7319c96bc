"""Fixtures of the feed's tests: nodes without Spark, and feeders of those with it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.feed_nodes import Nodes


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as executor:
        yield executor


@pytest.fixture
def make_nodes(pool: ThreadPoolExecutor) -> Iterator[Any]:
    # After the pool, so that it ends first: closed servers let go of all that still wait.
    made: list[Nodes] = []

    def make(*args: Any, **kwargs: Any) -> Nodes:
        made.append(Nodes(*args, **kwargs))
        return made[-1]

    yield make
    for nodes in made:
        for server in nodes.servers:
            server.close()


@pytest.fixture(scope="module", params=["on", "off"])
def feed_jvm(request: pytest.FixtureRequest) -> str:
    """Whether the executors' JVMs feed, or Python workers."""
    return request.param
