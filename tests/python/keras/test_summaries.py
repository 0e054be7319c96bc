"""What a node's feed looks like in TensorBoard."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

import keras
import tfos
from support import two_nodes
from support.programs import keras as programs
from tfos.errors import BadInputError
from tfos.keras.summaries import Summaries


def scalars(directory):
    """{name: [(step, value), ...]}"""
    events = EventAccumulator(str(directory)).Reload()
    return {
        name: [
            (event.step, float(tf.make_ndarray(event.tensor_proto)))
            for event in events.Tensors(name)
        ]
        for name in events.Tags()["tensors"]
        if name.startswith(("node/", "epoch_loss"))
    }


def test_each_node_draws_its_feed_beside_the_curves_of_keras(spark, tmp_path):
    rows = spark.range(2000).selectExpr("array(id % 7 / 7, id % 11 / 11) AS x", "id % 7 / 7 AS y")
    with tfos.run(spark, programs.with_summaries, nodes=2, log_dir=str(tmp_path)) as cluster:
        cluster.train(rows, epochs=3)
    assert len(scalars(tmp_path / "train")["epoch_loss"]) == 3
    for node in ("worker_0", "worker_1"):
        drawn = scalars(tmp_path / node)
        # All bytes may have come before the first step.
        assert min(value for _, value in drawn["node/feed_bytes_per_second"]) >= 0
        for name in ("rows_per_second", "steps_per_second", "cpu_cores"):
            assert max(value for _, value in drawn[f"node/{name}"]) > 0
        assert all(0 <= value <= 1.01 for _, value in drawn["node/share_waiting_for_rows"])
        assert min(value for _, value in drawn["node/share_feeders_waiting"]) >= 0
        # Each step sums up the gradients of all nodes.
        for name in ("share_in_collectives", "collective_bytes_per_second"):
            assert max(value for _, value in drawn[f"node/{name}"]) > 0
        waits = drawn["node/share_waiting_for_nodes"]
        for (_, waited), (_, all_of_it) in zip(
            waits, drawn["node/share_in_collectives"], strict=True
        ):
            assert 0 <= waited <= all_of_it <= 1.01
        steps = [step for step, _ in drawn["node/steps_per_second"]]
        assert len(steps) == 3 and steps == sorted(steps) and steps[0] > 0


@pytest.mark.long
def test_the_profilers_trace_names_the_feed_and_the_all_reduce(spark, tmp_path):
    rows = spark.range(2000).selectExpr("array(id % 7 / 7, id % 11 / 11) AS x", "id % 7 / 7 AS y")
    with tfos.run(spark, programs.with_profile, nodes=2, log_dir=str(tmp_path)) as cluster:
        cluster.train(rows)
    for node in ("worker-0", "worker-1"):
        (trace,) = tmp_path.glob(f"{node}/train/plugins/profile/*/*.xplane.pb")
        space = XSpace.FromString(trace.read_bytes())
        (host,) = [plane for plane in space.planes if plane.name == "/host:CPU"]
        events = [event for line in host.lines for event in line.events]
        names = [host.event_metadata[event.metadata_id].name for event in events]
        assert len([name for name in names if name.endswith("/TfosAllReduce:TfosAllReduce")]) == 3
        feeds = [
            name
            for name, event in zip(names, events, strict=True)
            for stat in event.stats
            # Texts are among the names.
            if host.stat_metadata[stat.ref_value].name == "TfosFeed"
        ]
        assert feeds == ["Iterator::Root::Map"] * 3


def test_long_epochs_are_drawn_within(tmp_path):
    """The node has no feed; each look at the clock is ten seconds later."""
    seconds = iter(range(0, 100_000, 10))
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    drawing = Summaries(str(tmp_path), dict, 15.0, clock=lambda: next(seconds))
    model.fit(keras.ops.ones((12, 1)), keras.ops.ones((12, 1)), 2, callbacks=[drawing], verbose=0)
    drawn = scalars(tmp_path)
    assert drawn.keys() == {"node/steps_per_second", "node/cpu_cores"}
    steps = [step for step, _ in drawn["node/steps_per_second"]]
    assert steps[-1] == 6 and len(steps) > 2
    assert all(value > 0 for _, value in drawn["node/steps_per_second"])


def test_steps_that_are_restored_when_training_begins_are_no_rate(tmp_path):
    """By callbacks behind this one. Each look at the clock is ten seconds later."""
    seconds = iter(range(0, 100_000, 10))
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    drawing = Summaries(str(tmp_path), dict, 15.0, clock=lambda: next(seconds))
    restoring = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: model.optimizer.iterations.assign(120_000)
    )
    rows = keras.ops.ones((12, 1))
    model.fit(rows, rows, 2, callbacks=[drawing, restoring], verbose=0)
    drawn = scalars(tmp_path)["node/steps_per_second"]
    assert drawn[0][0] > 120_000
    assert all(0 < value <= 0.1 for _, value in drawn)


def test_a_directory_is_needed():
    with pytest.raises(BadInputError, match="needs a directory"):
        two_nodes._context(0, [], "key").summaries()
