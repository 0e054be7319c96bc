"""Clusters that go on from the checkpoints of nodes that Spark feeds: of those that write a part each
(``sharded=True``), of another number of nodes, and where nodes may be lost."""

from __future__ import annotations

import pytest

import tfos
from support.files.checkpoints import parts_in
from support.programs import checkpoints as programs
from support.waiting import BOUND_SECONDS
from tfos.errors import NodeFailedError

THREE_EXECUTORS = "local-cluster[3,1,1024]"
ALL = list(range(programs.NUMBERED))
LOST = "with nodes=(least, most), what a lost node has trained on is fed again"
UNKNOWN = "the checkpoint does not say which of its rows were trained on"

pytestmark = [pytest.mark.long, pytest.mark.timeout(5 * BOUND_SECONDS)]


def train(spark, folder, run, *, nodes, sharded, epochs=3, breaks_after=None, cache=None):
    """Feeds ``numbered_rows``. ``breaks_after``: the cluster fails in the second epoch, when there
    is a checkpoint of so many steps. Returns how many rows were fed."""
    args = {
        "resume": f"{folder}/run",
        "notes": str(folder),
        "run": run,
        "kind": "frame",
        "remainder": None,
        "epochs": epochs,
        "kill": None if breaks_after is None else -1,
        "after": breaks_after,
        "sharded": sharded,
    }
    with tfos.run(
        spark,
        programs.fit_and_note_rows,
        nodes=nodes,
        args=args,
        resume=args["resume"],
        progress=True,
    ) as cluster:
        cluster.train(programs.numbered_rows(spark, "frame"), epochs=epochs, cache=cache)
    assert cluster.ledger().complaint() is None and not cluster.ledger().ended_early
    return sum(node["rows_read"] for node in cluster.ledger().nodes.values())


def break_off(spark, folder, run, *, nodes, sharded, after):
    """How many steps of the second epoch the checkpoint has that is there then."""
    with pytest.raises(NodeFailedError, match="in the second epoch"):
        train(spark, folder, run, nodes=nodes, sharded=sharded, breaks_after=after)
    last = tfos.last_checkpoint(folder / "run")
    assert last.epoch == 1 and last.step >= after
    assert len(parts_in(last.path)) == (nodes if sharded else 1)
    return last.step


def rows_of(nodes, steps=None):
    """Of what nodes have noted, the rows of their first steps."""
    return sorted(row for _, made in nodes for batch in made[:steps] for row in batch)


def test_an_epoch_begins_anew_where_each_node_has_written_a_part(
    spark_on, leftovers, tmp_path, capfd
):
    spark = spark_on(THREE_EXECUTORS)
    break_off(spark, tmp_path, 0, nodes=2, sharded=True, after=4)
    assert train(spark, tmp_path, 1, nodes=3, sharded=True) == 2 * programs.NUMBERED
    resumed = programs.noted_rows(tmp_path, 1, nodes=3)
    assert [passed_over for passed_over, _ in resumed] == [0, 0, 0]
    assert rows_of(resumed) == ALL
    assert f"the next one begins anew: {UNKNOWN}" in capfd.readouterr().err
    last = tfos.last_checkpoint(tmp_path / "run")
    assert last[1:] == (3, 0) and len(parts_in(last.path)) == 3
    # And one node goes on from all parts.
    assert train(spark, tmp_path, 2, nodes=1, sharded=False, epochs=4) == programs.NUMBERED
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == (4, 0)


def test_an_epoch_begins_anew_where_the_nodes_keep_its_rows(spark_on, leftovers, tmp_path):
    spark = spark_on(THREE_EXECUTORS)
    break_off(spark, tmp_path, 0, nodes=2, sharded=False, after=4)
    fed = train(spark, tmp_path, 1, nodes=2, sharded=False, cache="memory")
    assert fed == 2 * programs.NUMBERED
    assert rows_of(programs.noted_rows(tmp_path, 1)) == ALL


@pytest.mark.parametrize("nodes_before", [2, (2, 2)], ids=["has the position", "without it"])
def test_an_epoch_begins_anew_where_nodes_may_be_lost(
    spark_on, leftovers, tmp_path, capfd, nodes_before
):
    spark = spark_on(THREE_EXECUTORS)
    break_off(spark, tmp_path, 0, nodes=nodes_before, sharded=False, after=4)
    capfd.readouterr()
    assert train(spark, tmp_path, 1, nodes=(2, 2), sharded=False) == 2 * programs.NUMBERED
    resumed = programs.noted_rows(tmp_path, 1)
    assert [passed_over for passed_over, _ in resumed] == [0, 0]
    assert rows_of(resumed) == ALL
    said = f"1 epoch is done in file://{tmp_path}/run, and the next one begins anew: "
    assert said + LOST in capfd.readouterr().err


def test_nodes_that_write_parts_go_on_within_an_epoch_of_others(spark_on, leftovers, tmp_path):
    spark = spark_on(THREE_EXECUTORS)
    made = break_off(spark, tmp_path, 0, nodes=2, sharded=False, after=4)
    before = rows_of(programs.noted_rows(tmp_path, 0), made)
    again = break_off(spark, tmp_path, 1, nodes=3, sharded=True, after=made + 2)
    resumed = programs.noted_rows(tmp_path, 1, nodes=3)
    assert [passed_over for passed_over, _ in resumed] == [made] * 3
    assert not set(before) & set(rows_of(resumed)), "these were trained on"
    assert again > made
    # What they have written themselves within the epoch does not say which rows it has.
    assert train(spark, tmp_path, 2, nodes=2, sharded=True) == 2 * programs.NUMBERED
    assert rows_of(programs.noted_rows(tmp_path, 2)) == ALL
