"""Names of metrics: all code that uses one uses a name of the table in metric_names.h."""

from __future__ import annotations

import re

import pytest

from support.places import ROOT

HEADER = ROOT / "src/control/messages/parts/metric_names.h"
NAMES = re.findall(r'KnownMetric\{"(\w+)",', HEADER.read_text())
USERS = [
    *sorted((ROOT / "src/control/page").glob("*.js")),
    ROOT / "python/tfos/cluster/ledger.py",
    ROOT / "python/tfos/cluster/notebook.py",
    ROOT / "python/tfos/cluster/progress.py",
    ROOT / "python/tfos/keras/rates.py",
]
#: What a word must begin with to be the name of a metric, most of which have such a beginning.
BEGINNINGS = sorted({name.partition("_")[0] for name in NAMES if "_" in name} - {"result"})
#: Words with such a beginning that name something else.
OTHERS = {
    "collective_bytes",  # counters that a node keeps for itself
    "collective_seconds",
    "collective_wait_seconds",
    "cpu_cores",
    "feed_bytes_per_second",  # of a run of MLflow
    "items_read",  # of the driver's activity
    "items_moved",
    "metrics_before",  # of nodes that others came in place of
    "rows_a_second",
    "rows_before",  # of the ledger
    "rows_per_second",
    "rows_read",  # of the ledger
    "seconds_silent",
    "share_feeders_waiting",  # of a run of MLflow
    "share_waiting_for_rows",
    "steps_per_second",
    "stopped_by",  # the user who ended a cluster
}


def words(text):
    """Those that may name a metric, without comments and docstrings."""
    text = re.sub(r'"""[\s\S]*?"""|/\*[\s\S]*?\*/|^\s*(//|#).*$', "", text, flags=re.MULTILINE)
    return set(re.findall(rf"\b(?:{'|'.join(BEGINNINGS)})_[a-z_]*[a-z]\b", text)) - OTHERS


def test_the_table_is_read():
    assert len(NAMES) == len(set(NAMES)) > 30
    assert {"rows", "feed_queued_bytes", "parameter_pushes"} <= set(NAMES)


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.name)
def test_who_uses_a_name_uses_one_of_the_table(path):
    assert words(path.read_text()) <= set(NAMES)


def test_the_users_are_those_that_have_names():
    used = {path.name: words(path.read_text()) for path in USERS}
    for name in ("charts.js", "nodes.js", "page.js", "ledger.py", "progress.py"):
        assert used[name], name


def test_the_page_for_operators_explains_all_names():
    text = (ROOT / "docs/metrics.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in text] == []


@pytest.mark.parametrize(("row", "curve"), [("with a curve", "true"), ("without", "false")])
def test_the_page_of_the_protocol_says_their_kinds(row, curve):
    page = (ROOT / "docs/formats/control-protocol.md").read_text()
    (cells,) = re.findall(rf"^\| {row} \| (.*) \| (.*) \|$", page, re.MULTILINE)
    for cell, kind in zip(cells, ("Counter", "Gauge"), strict=True):
        in_header = re.findall(
            rf'KnownMetric\{{"(\w+)", MetricKind::k{kind}, {curve},', HEADER.read_text()
        )
        assert re.findall(r"`(\w+)`", cell) == in_header
