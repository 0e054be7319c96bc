"""``ctx.checkpoint(..., sharded=True)`` on nodes that are killed, lost or join, and on those that
come after them."""

from __future__ import annotations

import pathlib

import pytest

import keras
import tfos
from support.comparing import assert_goes_on, assert_same
from support.files.checkpoints import parts_in
from support.files.remote_files import names_in
from support.programs import checkpoints as programs
from support.programs import going_on
from support.programs.two_nodes import optimizer as optimizer_programs
from support.two_nodes import Died, TwoNodes
from tfos.errors import BadInputError, NodeFailedError
from tfos.keras.checkpoint.agreement import Agreement
from tfos.keras.checkpoint.parts import PartedDirectory
from tfos.keras.checkpoint.saving import Checkpoints

TWO_EXECUTORS = "local-cluster[2,1,1024]"
THREE_EXECUTORS = "local-cluster[3,1,1024]"
#: When all nodes are killed, and there are so many checkpoints of it.
MOMENT = (1, 3)


@pytest.fixture(scope="module")
def two_nodes():
    with TwoNodes() as nodes:
        yield nodes


def fit_alone(directory, epochs, sharded=False):
    """A model that one node trains, or goes on with, and the epochs."""
    model = programs.model_of(seed=9)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    kept = Checkpoints(str(directory), None, 3, sharded=sharded)
    history = model.fit(programs.dataset_of(), epochs=epochs, verbose=0, callbacks=[kept])
    return model, history.epoch


@pytest.mark.long
def test_two_nodes_go_on_after_a_kill(two_nodes, tmp_path):
    run, whole = str(tmp_path / "run"), str(tmp_path / "whole")
    with TwoNodes() as killed, pytest.raises(Died):
        killed.run(programs.resumable, run, MOMENT, True, True)
    resumed = two_nodes.run(programs.resumable, run, MOMENT, False, True)
    # It is the training of which the chief writes all.
    undisturbed = two_nodes.run(programs.resumable, whole, MOMENT, False, False)
    assert_goes_on(resumed, undisturbed, MOMENT)
    last = tfos.last_checkpoint(run)
    assert last[1:] == (programs.EPOCHS, 0)
    assert len(parts_in(last.path)) == 2 and len(parts_in(tfos.last_checkpoint(whole).path)) == 1
    # One node has all that is in it.
    model, epochs = fit_alone(run, programs.EPOCHS)
    assert epochs == []
    assert_same(programs.everything_of(model), resumed[0]["all"])


@pytest.mark.long
def test_nodes_go_on_with_what_another_number_of_nodes_wrote(two_nodes, tmp_path):
    model, _ = fit_alone(tmp_path, 1, sharded=True)
    assert len(parts_in(tfos.last_checkpoint(tmp_path).path)) == 1, "one node writes it whole"
    together = two_nodes.run(programs.resumable, str(tmp_path), MOMENT, False, True)
    assert [node["epochs"] for node in together] == [[1, 2], [1, 2]]
    assert together[0]["begun"] == int(model.optimizer.iterations)
    again, epochs = fit_alone(tmp_path, programs.EPOCHS + 1)
    assert epochs == [programs.EPOCHS]
    done, epochs = fit_alone(tmp_path, programs.EPOCHS + 1)
    assert epochs == []
    assert_same(programs.everything_of(done), programs.everything_of(again))


@pytest.mark.parametrize("sharded", [True, False])
def test_an_epoch_that_one_node_has_not_read_to_its_end_is_not_done(two_nodes, tmp_path, sharded):
    two_nodes.run(optimizer_programs.cut_short_on_the_worker, str(tmp_path), sharded)
    assert tfos.last_checkpoint(tmp_path)[1:] == (0, 4)


def test_nodes_with_other_numbers_of_rows_agree(two_nodes, tmp_path):
    """Within an epoch, too, as long as both have some."""
    (chief, first), (worker, second) = two_nodes.run(programs.uneven, str(tmp_path))
    assert chief["checkpoint_failures"] == worker["checkpoint_failures"] == 0
    assert chief["checkpoints"] == worker["checkpoints"] > programs.EPOCHS
    assert tfos.last_checkpoint(tmp_path)[1:] == (programs.EPOCHS, 0)
    model, epochs = fit_alone(tmp_path, programs.EPOCHS)
    assert epochs == []
    assert_same(programs.everything_of(model), first)
    assert len(second) == len(first)


def test_nodes_without_a_common_directory_do_not_begin(two_nodes, tmp_path):
    failures = two_nodes.failures_of(programs.with_a_directory_each, str(tmp_path / "run"))
    for failure in failures:
        assert "BadInputError: ctx.checkpoint(sharded=True): worker:0 on host" in failure
        assert "can't read and write" in failure and "what chief:0 on host" in failure
    assert not pathlib.Path(f"{tmp_path}/run-begun").exists()


def test_a_node_that_joins_without_the_directory_of_the_others_fails(tmp_path):
    agreement = Agreement(PartedDirectory(tmp_path / "run"), None, within_epochs=False)
    with pytest.raises(BadInputError, match="joins others, and finds nothing of theirs"):
        agreement.join()
    (tmp_path / "file").touch()
    agreement = Agreement(PartedDirectory(tmp_path / "file"), None, within_epochs=False)
    with pytest.raises(BadInputError, match="can't be used: NotADirectoryError"):
        agreement.join()


def test_nodes_that_all_have_joined_count_on(two_nodes, tmp_path):
    PartedDirectory(tmp_path).begin()
    (tmp_path / "checkpoint-00000007").mkdir()
    assert two_nodes.run(going_on.number_after_joining, str(tmp_path)) == [8, 8]


def test_all_hear_of_a_part_that_cannot_be_written(two_nodes, tmp_path):
    chief, worker = two_nodes.run(programs.cannot_write_once, str(tmp_path))
    assert chief[0] == worker[0] == {"checkpoints": 1, "checkpoint_failures": 1}
    assert any(
        "the checkpoint of epoch 1, step 0 was not written" in text
        and "worker:0 on host localhost could not write its part: OSError" in text
        for text in chief[1]
    )
    part = "this node's part of the checkpoint of epoch 1, step 0 was not written"
    assert any(part in text and "No space left" in text for text in worker[1])
    assert names_in(tmp_path) == [".tfos-parts", "checkpoint-00000002"]


def test_steps_in_one_execution_are_refused_within_an_epoch(two_nodes, tmp_path):
    failures = two_nodes.failures_of(programs.of_two_steps, str(tmp_path))
    assert all("is for steps_per_execution=1" in failure for failure in failures)


def test_a_model_of_each_node_is_refused(tmp_path):
    model = programs.model_of(seed=9)
    model.compile("adam", "mse")
    kept = Checkpoints(str(tmp_path), None, 3, sharded=True, nodes=2)
    with pytest.raises(BadInputError, match="one model that all 2 nodes train"):
        model.fit(programs.dataset_of(), verbose=0, callbacks=[kept])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["local", "hdfs"])
def test_a_cluster_goes_on_where_the_killed_one_was(spark_on, leftovers, empty_directory, kind):
    base = empty_directory(kind)

    def run(name, dies=False, sharded=True):
        args = {"directory": f"{base}/{name}", "moment": MOMENT, "dies": dies, "sharded": sharded}
        with tfos.run(
            spark_on(TWO_EXECUTORS),
            programs.of_args,
            nodes=2,
            args=args,
            input_mode="tensorflow",
        ) as cluster:
            return cluster.wait(timeout=120)

    with pytest.raises(NodeFailedError, match="SIGKILL|signal 9"):
        run("run", dies=True)
    assert tfos.last_checkpoint(f"{base}/run")[1:] == MOMENT
    assert len(parts_in(tfos.last_checkpoint(f"{base}/run").path)) == 2
    assert_goes_on(run("run"), run("whole", sharded=False), MOMENT)
    assert tfos.last_checkpoint(f"{base}/run")[1:] == (programs.EPOCHS, 0)


@pytest.mark.long
def test_the_next_node_is_the_first_when_the_chief_is_lost(spark_on, leftovers, tmp_path):
    with tfos.run(
        spark_on(THREE_EXECUTORS),
        programs.lose_the_chief,
        nodes=(2, 3),
        args={"directory": str(tmp_path), "sharded": True},
        input_mode="tensorflow",
        late_nodes=False,
    ) as cluster:
        chief, second, third = cluster.wait(timeout=120)
    assert chief is None and len(second) == len(third)
    last = tfos.last_checkpoint(tmp_path)
    assert last[1:] == (programs.EPOCHS, 0)
    assert len(parts_in(last.path)) == 2
    model, epochs = fit_alone(tmp_path, programs.EPOCHS)
    assert epochs == []
    assert_same(programs.everything_of(model), second)


@pytest.mark.long
def test_a_node_that_has_joined_writes_a_part(spark_on, leftovers, tmp_path):
    (tmp_path / "lives").mkdir()
    with tfos.run(
        spark_on(THREE_EXECUTORS),
        programs.lose_the_chief_after_another,
        nodes=(2, 3),
        args={
            "directory": str(tmp_path / "kept"),
            "dir": str(tmp_path / "lives"),
            "sharded": True,
        },
        input_mode="tensorflow",
    ) as cluster:
        lives = cluster.wait(timeout=280)
    assert lives[1:] == [0, 1]
