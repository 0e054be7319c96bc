"""Parameter servers from Python: without Spark, each a child process of the test."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tfos import _native, parameter_server
from tfos.errors import BadInputError, NodeLostError, TfosError
from tfos.parameter_server import connection
from tfos.parameter_server.process import ParameterServerProcess


@pytest.fixture
def serving(leftovers):
    """A function that starts a server."""
    with contextlib.ExitStack() as stack:

        def start():
            process = ParameterServerProcess("127.0.0.1")
            stack.callback(process.close)
            return process

        yield start


def worker(number=0, workers=1):
    return connection.Worker(number, f"worker:{number} on host h", number == 0, workers)


def server_of(process, variables, number=0, workers=1, **options):
    options.setdefault("overlap", False)
    return parameter_server.ParameterServer(
        variables, [process.server], worker(number, workers), process.key, **options
    )


def test_arrays_are_exchanged_every_few_steps(serving):
    process = serving()
    w, b = np.full((3, 2), 5, np.float32), np.zeros(4, np.float64)
    versions = []
    with server_of(process, [w, b], sync_interval=2) as server:
        assert server.local_servers == 1
        for _ in range(5):
            w += 1
            b -= 1
            server.step()
            versions.append(server.version)
        other = np.zeros((3, 2), np.float32), np.zeros(4, np.float64)
        with server_of(process, other, number=1):
            assert other[0].tolist() == [[9, 9]] * 3 and other[1].tolist() == [-4] * 4
    assert versions == [0, 1, 1, 2, 2]
    assert w.tolist() == [[10, 10]] * 3, "the remainder was pushed"


@pytest.mark.parametrize("overlap", [False, True])
def test_changes_of_processes_add_up(serving, overlap):
    process = serving()
    w = np.zeros(1000, np.float32)
    context = multiprocessing.get_context("spawn")
    with server_of(process, [w]) as server:
        workers = [
            context.Process(target=push_changes, args=(process.server, process.key, n, overlap))
            for n in range(1, 4)
        ]
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        assert [one.exitcode for one in workers] == [0] * 3
        server.pull()
    assert w.tolist() == [10 * (1 + 2 + 3)] * 1000


def push_changes(server, key, number, overlap):
    w = np.zeros(1000, np.float32)
    with parameter_server.ParameterServer(
        [w], [server], worker(number), key, sync_interval=3, overlap=overlap
    ) as client:
        for _ in range(10):
            w += number
            client.step()


def test_a_push_is_counted_once(serving):
    w = np.zeros(3, np.float32)
    with server_of(serving(), [w], sync_interval=100) as server:
        for _ in range(5):
            w += 1
            server.step()
        server.push()
        server.push()
        assert w.tolist() == [5] * 3
    assert w.tolist() == [5] * 3, "there was nothing left to push"
    # With an optimizer: what was pushed is not expected again, nor counted in the next mean.
    options = {"optimizer": parameter_server.Sgd(learning_rate=1.0), "sync_interval": 100}
    with server_of(serving(), [w], **options) as server:
        for _ in range(3):
            server.step([np.ones(3, np.float32)])
        server.push()
        server.step([np.ones(3, np.float32)])
        server.push()
    assert w.tolist() == [3] * 3


def push_until_killed(server, key, pushed):
    w = np.zeros(100_000, np.float32)
    with parameter_server.ParameterServer(
        [w], [server], worker(1), key, sync_interval=1, staleness=1
    ) as client:
        while True:
            w += 1
            client.step()
            pushed.set()


def test_others_go_on_when_a_worker_is_killed(serving):
    process = serving()
    w = np.zeros(100_000, np.float32)
    context = multiprocessing.get_context("spawn")
    pushed = context.Event()
    with server_of(process, [w], sync_interval=1, staleness=1) as server:
        other = context.Process(
            target=push_until_killed, args=(process.server, process.key, pushed)
        )
        other.start()
        while not pushed.is_set():
            server.step()
        os.kill(other.pid, signal.SIGKILL)
        other.join()
        before = server.version
        for _ in range(5):
            server.step()
        assert server.version >= before + 5


def test_a_killed_server_is_named(serving):
    process = serving()
    w = np.zeros(10, np.float32)
    server = server_of(process, [w])
    server.open()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(NodeLostError, match=r"parameter server on host \S+: .*ended"):
        while True:
            server.sync()
    with pytest.raises(NodeLostError, match="parameter server on host"):
        server.pull()


def test_the_server_ends_with_its_driver(leftovers):
    program = (
        "import os, signal\nfrom tfos.parameter_server.process import ParameterServerProcess\n"
        "process = ParameterServerProcess('127.0.0.1')\nprint(process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL and int(done.stdout) > 0


def test_a_port_that_is_taken_is_said(serving):
    process = serving()
    with pytest.raises(TfosError, match=f"port {process.server.port} .*choose another port"):
        ParameterServerProcess("127.0.0.1", process.server.port)


def test_state_goes_on_with_another_number_of_servers(serving, tmp_path, caplog):
    first = serving()
    rng = np.random.default_rng(3)
    w, b = rng.random((300, 200), np.float32), rng.random(17)
    gradients = [rng.random(w.shape, np.float32), rng.random(b.shape)]
    optimizer = parameter_server.Adam(learning_rate=0.1)
    options = {"optimizer": optimizer, "sync_interval": 1, "overlap": False}
    with server_of(first, [w, b], **options) as server:
        for _ in range(3):
            server.step(gradients)
        server.save(str(tmp_path / "state.npz"))
        server.step(gradients)
    again = [np.zeros_like(w), np.zeros_like(b)]
    second = serving()
    with server_of(second, again, restore=str(tmp_path / "state.npz"), **options) as server:
        assert server.version == 3
        server.step(gradients)
    np.testing.assert_array_equal(again[0], w)
    np.testing.assert_array_equal(again[1], b)
    with pytest.raises(BadInputError, match="variable 0 is float32"):
        server_of(
            serving(),
            [np.zeros((2, 2), np.float32), b],
            restore=str(tmp_path / "state.npz"),
            **options,
        ).open()
    with pytest.raises(BadInputError, match="variable 0 is float32.*here int32"):
        server_of(second, again, **options)._read_state(
            str(tmp_path / "state.npz"), [w.astype(np.int32), b]
        )
    with (
        caplog.at_level("WARNING"),
        server_of(second, again, restore=str(tmp_path / "state.npz"), **options) as server,
    ):
        assert server.version == 4
    assert "state.npz was left alone: the servers have values already" in caplog.text
    with pytest.raises(BadInputError, match="not of these variables"):
        server_of(serving(), again, restore=str(tmp_path / "state.npz")).open()


def test_a_saved_state_knows_what_was_under_way(serving, tmp_path):
    import ml_dtypes

    w = np.zeros(1000, ml_dtypes.bfloat16)
    with server_of(serving(), [w], overlap=True) as server:
        w += 1
        server.sync()
        server.save(str(tmp_path / "state.npz"))
    with server_of(serving(), [np.zeros_like(w)], restore=str(tmp_path / "state.npz")) as server:
        assert server.version == 1


def test_optimizers_do_what_those_of_keras_do(serving):
    import keras

    rng = np.random.default_rng(4)
    start = rng.standard_normal((5, 3)).astype(np.float32)
    gradients = [rng.standard_normal((5, 3)).astype(np.float32) for _ in range(6)]
    for make in (
        lambda: keras.optimizers.SGD(0.1),
        lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        lambda: keras.optimizers.Adam(0.05, beta_1=0.8),
    ):
        variable = keras.Variable(start)
        optimizer = make()
        ours = start.copy()
        process = serving()
        with server_of(process, [ours], optimizer=make(), sync_interval=1) as server:
            for gradient in gradients:
                optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
                server.step([gradient])
        np.testing.assert_allclose(ours, np.asarray(variable), rtol=1e-5, atol=1e-6)


def test_values_are_copied_for_as_many_tensors_as_variables(serving):
    process = serving()
    variables = [np.arange(3, dtype=np.float32), np.zeros(2, np.float64)]
    rule = _native.ParameterRule.make("delta", workers=1)
    client = connection.connect([process.server], variables, rule, worker(), process.key)
    client.write(0, [connection.as_bytes(array) for array in variables])
    client.start_at(0)
    client.run(push=None, pull=True, overlapped=False, tensors=[])
    memory = [connection.as_bytes(np.ones_like(array)) for array in variables]
    client.copy_values(memory)
    assert [one.tobytes() for one in memory] == [array.tobytes() for array in variables]
    with pytest.raises(BadInputError, match="3 tensors for 2 variables"):
        client.copy_values([*memory, np.empty(4, np.uint8)])
    with pytest.raises(BadInputError, match="1 tensors for 2 variables"):
        client.copy_values(memory[:1])
    with pytest.raises(BadInputError, match="variable 1 has 16 bytes, and its tensor 8"):
        client.copy_values([memory[0], np.empty(8, np.uint8)])


def test_what_cannot_be_on_servers_is_refused(serving):
    import keras

    w = [np.zeros(3, np.float32)]
    process = serving()
    for words, options in (
        ("combiner is one of", {"combiner": "sum"}),
        ("sync_interval", {"sync_interval": 0}),
        ("staleness", {"staleness": -1}),
        ("RMSprop", {"optimizer": keras.optimizers.RMSprop()}),
        ("clipnorm", {"optimizer": keras.optimizers.SGD(clipnorm=1.0)}),
    ):
        with pytest.raises(BadInputError, match=words):
            server_of(process, w, **options)
    with pytest.raises(BadInputError, match="neither a variable nor an array"):
        server_of(process, [3.0])
    with pytest.raises(BadInputError, match="can't keep uint8"):
        server_of(process, [np.zeros(3, np.uint8)]).open()
    with server_of(process, w) as server:
        with pytest.raises(BadInputError, match="other variables than the first worker"):
            server_of(process, [np.zeros(4, np.float32)], number=1).open()
        with pytest.raises(BadInputError, match="combined otherwise"):
            server_of(process, w, number=1, combiner="update-mean").open()
        server.sync()  # Others' mistakes are not ours.


def test_keras_fits_with_weights_and_with_gradients_on_the_server(serving):
    import keras

    rng = np.random.default_rng(5)
    x = rng.standard_normal((256, 4)).astype(np.float32)
    y = x @ np.array([[1], [-2], [0.5], [3]], np.float32)

    def model_with(optimizer):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
        return model

    fit = {"batch_size": 32, "epochs": 10, "shuffle": False, "verbose": 0}
    alone = model_with(keras.optimizers.Adam(0.05))
    alone.fit(x, y, **fit)
    # One worker: the change that is added is that of training alone.
    for overlap in (False, True):
        model = model_with(keras.optimizers.Adam(0.05))
        server = server_of(serving(), model, sync_interval=7, overlap=overlap)
        model.fit(x, y, callbacks=[server.callback()], **fit)
        np.testing.assert_allclose(
            model.get_weights()[0], alone.get_weights()[0], rtol=1e-3, atol=1e-4
        )
    # The same optimizer on the server, with the gradients of each step.
    process = serving()
    model = model_with("sgd")
    server = server_of(process, model, optimizer=keras.optimizers.Adam(0.05), sync_interval=1)
    model.compile(server.keras_optimizer(), "mse")
    model.fit(x, y, callbacks=[server.callback()], **fit)
    np.testing.assert_allclose(model.get_weights()[0], alone.get_weights()[0], rtol=1e-3, atol=1e-4)


def test_legacy_keras_takes_the_callback(serving):
    import tf_keras

    model = tf_keras.Sequential(
        [
            tf_keras.layers.Input((1,)),
            tf_keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False),
        ]
    )
    model.compile(tf_keras.optimizers.SGD(0.25), "mse")
    process = serving()
    x = np.ones((4, 1), np.float32)
    model.fit(
        x,
        x,
        batch_size=2,
        verbose=0,
        callbacks=[server_of(process, model, sync_interval=1).callback()],
    )
    # From 0 towards 1, by half of what is left in each of two steps.
    assert model.get_weights()[0].item() == 0.75
    other = [np.zeros((1, 1), np.float32)]
    with server_of(process, other, 1):
        assert other[0].item() == 0.75


def test_gradients_of_one_execution_are_averaged(serving):
    import keras

    x = np.ones((12, 1), np.float32)
    weights = []
    for steps in (1, 3):
        model = keras.Sequential(
            [
                keras.layers.Input((1,)),
                keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False),
            ]
        )
        server = server_of(
            serving(),
            model,
            optimizer=parameter_server.Sgd(learning_rate=0.25),
            sync_interval=3 // steps,
        )
        model.compile(server.keras_optimizer(), "mse", steps_per_execution=steps)
        model.fit(x, x, batch_size=2, verbose=0, callbacks=[server.callback()])
        weights.append(float(model.get_weights()[0].item()))
    # The gradient of (w - 1)^2, twice, each the mean of three batches with the same w.
    assert weights == [0.75, 0.75]


@pytest.mark.parametrize("overlap", [False, True])
def test_statistics_are_averaged(serving, overlap):
    """Two nodes that move towards the same arrive there, and not beyond."""
    import keras

    def weights():
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.BatchNormalization()])
        moving_mean, moving_variance = model.layers[0].non_trainable_weights
        return model, moving_mean, moving_variance

    process = serving()
    nodes = [weights() for _ in range(2)]
    servers = [
        server_of(process, node[0], number, workers=2, overlap=overlap)
        for number, node in enumerate(nodes)
    ]
    for server in servers:
        server.open()
    for _ in range(40):
        for (model, moving_mean, moving_variance), server in zip(nodes, servers, strict=True):
            for _ in range(10):  # As BatchNormalization(momentum=0.9) does.
                moving_mean.assign(moving_mean * 0.9 + 5.0 * 0.1)
                moving_variance.assign(moving_variance * 0.9)
                model.layers[0].gamma.assign_add([1.0, 0.0])
            server.sync()
    for server in servers:
        server.sync()  # Waits for the exchange before.
    for server in servers:
        server.pull()
        server.close()
    for _, moving_mean, moving_variance in nodes:
        np.testing.assert_allclose(np.asarray(moving_mean), [5, 5], atol=0.1)
        assert (np.asarray(moving_variance) >= 0).all() and (
            np.asarray(moving_variance) < 0.1
        ).all()
    assert np.asarray(nodes[0][0].layers[0].gamma).tolist() == [1 + 2 * 40 * 10, 1], "steps add up"


def test_tensorflow_variables_and_their_types(serving):
    import tensorflow as tf

    process = serving()
    variables = [
        tf.Variable([1.0, 2.0], dtype=dtype)
        for dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16)
    ]
    variables.append(tf.Variable([7, 8], dtype=tf.int64))
    with server_of(process, variables, sync_interval=1, combiner="mean", workers=2) as server:
        for variable in variables:
            variable.assign_add(tf.cast([2, 4], variable.dtype))
        server.step()
    for variable in variables[:4]:
        assert tf.cast(variable, tf.float32).numpy().tolist() == [2, 4]
    assert variables[4].numpy().tolist() == [8, 10]
