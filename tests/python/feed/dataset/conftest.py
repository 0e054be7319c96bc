"""Fixtures of the tests of datasets."""

from __future__ import annotations

from typing import Any

import pytest

from support.dataset_nodes import DatasetNode


@pytest.fixture
def node(make_nodes: Any) -> DatasetNode:
    return DatasetNode(make_nodes(1))
