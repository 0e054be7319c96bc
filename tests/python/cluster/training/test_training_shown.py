"""What a person sees of a real training, wherever they look, and of its nodes' output."""

from __future__ import annotations

import json
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

import tfos
from support.operating import tfos as run_tfos
from support.waiting import BOUND_SECONDS, wait_for
from tfos.errors import NodeFailedError

pytestmark = pytest.mark.timeout(3 * BOUND_SECONDS)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TFOS_RUNTIME_DIR", str(tmp_path / "clusters"))


def train(ctx):
    """Fits, and says nothing by itself. Stops until there is a file each: in TensorFlow's import,
    before the first step, and before the second epoch."""
    import pathlib
    import sys

    def wait(name):
        wait_for(pathlib.Path(ctx.args, name).exists, name)

    class StopImport:
        def find_spec(self, name, path=None, target=None):
            if name.startswith("tensorflow."):
                wait("import")

    sys.meta_path.insert(0, StopImport())
    import keras

    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            wait("first step" if epoch == 0 else "second epoch")

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.01)), "mse")
    rows = ctx.dataset(5).map(lambda row: (row[:, :2], row[:, 2:]))
    model.fit(rows, epochs=3, verbose=0, callbacks=[Stop()])


def fetch(cluster, path):
    url = cluster.status_url.replace("v1/status", path)
    request = urllib.request.Request(url, headers=cluster.status_header)
    with urllib.request.urlopen(request, timeout=BOUND_SECONDS) as answer:
        return json.load(answer)


def wait_for_detail(cluster, detail):
    """Until both nodes say that they do this."""

    def details():
        return [node["detail"] for node in fetch(cluster, "v1/status")["nodes"]]

    wait_for(lambda: details() == [detail] * 2, lambda: f"{detail}: {details()}")


def count(ctx):
    for step, _batch in enumerate(ctx.batches(5), 1):
        ctx.report(step=step)


def test_the_wait_for_the_first_rows_is_shown_while_it_goes_on(spark, tmp_path, leftovers):
    come = tmp_path / "rows"

    def make(rows):
        wait_for(come.exists, "the word to go on")
        yield from rows

    rows = spark.sparkContext.parallelize([[1.0, 2.0]] * 40, 2).mapPartitions(make)
    with (
        tfos.run(spark, count, nodes=2, heartbeat_interval=0.2) as cluster,
        ThreadPoolExecutor(1) as beside,
    ):
        trained = beside.submit(cluster.train, rows)
        try:
            wait_for_detail(cluster, "waiting for the first rows")

            def told():
                progress = fetch(cluster, "v1/status")["progress"]
                return progress["text"] if progress["waits"] == "nodes" else ""

            text = wait_for(told, "a share of time that is measured")
            assert text.endswith("nodes wait for rows, waiting for the first rows")
        finally:
            come.touch()
        trained.result(BOUND_SECONDS)
        wait_for_detail(cluster, "")


def test_all_places_say_how_far_a_training_is(spark, tmp_path, capsys, leftovers):
    # More partitions than tasks at once, so that none of the nodes is left without rows.
    rows = spark.sparkContext.parallelize([[1.0, 2.0, 3.0]] * 40, 8)
    with tfos.run(spark, train, nodes=2, args=str(tmp_path)) as cluster:
        wait_for_detail(cluster, "importing TensorFlow")
        (tmp_path / "import").touch()
        cluster.train(rows, epochs=3, cache="memory")
        wait_for_detail(cluster, "first step (tracing)")
        (tmp_path / "first step").touch()
        third = pytest.approx(1 / 3)

        def after_first_epoch():
            found = fetch(cluster, "v1/status")
            told = [metrics.get("progress") for metrics in found["metrics"].values()]
            return found if told == [third] * 2 else None

        progress = wait_for(after_first_epoch, "the end of the first epoch")["progress"]
        assert progress["epochs"] == 3 and progress["step"] > 0 and progress["loss"] > 0
        assert progress["done"] == third
        # The second epoch is told of with its first step.
        beginning = f"epoch 1 of 3, step {progress['step']}, 33 %"
        assert progress["text"].startswith(beginning)
        shown = json.loads(run_tfos("status", "--json").stdout)["progress"]
        assert [shown[name] for name in ("epoch", "step", "done", "loss")] == [
            progress[name] for name in ("epoch", "step", "done", "loss")
        ]
        assert f"\n{beginning}" in run_tfos("status").stdout
        told = [event["text"] for event in fetch(cluster, "v1/history")["events"]]
        # They are few, so that none of them is forgotten: what a node does is not one of them.
        for node in ("worker:0", "worker:1"):
            assert len([text for text in told if text.startswith(f"{node} running")]) == 1, told
        (tmp_path / "second epoch").touch()
    said = capsys.readouterr().err
    assert re.search(r"ended \| epoch 3 of 3, step \d+, 100 %, loss [\d.e-]+ \| ", said), said


def build(args):
    import keras

    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.long
def test_an_estimator_says_how_far_it_is(spark, tmp_path, capsys, leftovers):
    points = spark.createDataFrame([([float(x)], [2.0 * x]) for x in range(40)], ["x", "label"])
    tfos.ml.Estimator(
        build=build, modelDir=str(tmp_path), inputMapping={"x": "x"}, epochs=3, batchSize=4, nodes=2
    ).fit(points)
    assert "ended | epoch 3 of 3, " in capsys.readouterr().err


def say_and_fail(ctx):
    import sys

    print("hello from the program")
    print("a warning", file=sys.stderr)
    for number in range(1000):
        print(f"line {number}")
    if ctx.node_id == 1:
        raise ValueError("no such layer")
    ctx.feed.next_batch(1)


def test_the_driver_shows_what_nodes_write(spark, capsys, leftovers):
    with pytest.raises(NodeFailedError, match="no such layer") as failed:
        with tfos.run(spark, say_and_fail, nodes=2, logs="driver", progress=False) as cluster:
            cluster.train(spark.sparkContext.parallelize(range(10)))
    said = capsys.readouterr().err
    assert "worker:1 | line 999\n" in said
    assert "worker:1 | ValueError: no such layer\n" in said, "its traceback, too"
    shown = len(re.findall(r"^worker:1 \| (?!\.\.\.)", said, re.MULTILINE))
    assert shown < 1000

    def left_out(what):
        gaps = re.findall(rf"worker:1 \| \.\.\. ([\d,]+) {what} left out", said)
        return sum(int(gap.replace(",", "")) for gap in gaps)

    # An agent that has gone has told the last 8 KiB.
    bytes_of_a_line = len("line 0\n")
    lines = left_out("lines? (?:are|is)") + left_out("bytes are") / bytes_of_a_line
    assert shown + lines >= 1002
    message = str(failed.value)
    assert message.count("ValueError: no such layer") == 2, "once in the head, once below"
    assert "\nIts last lines:\n" in message and "\n  line 999\n" in message
    assert re.search(r"\nAll of its output is in the stderr of executor \d on \S+\.\n", message)
    (url,) = re.findall(r"\nSpark shows its executor's log at (http\S+)$", message)
    with urllib.request.urlopen(url, timeout=BOUND_SECONDS) as answer:
        assert "line 999" in answer.read().decode()


def test_without_the_setting_the_driver_shows_none_of_it(spark, capsys, leftovers):
    def program(ctx):
        print("hello from the program")

    with tfos.run(spark, program, nodes=1):
        pass
    assert "hello" not in capsys.readouterr().err
