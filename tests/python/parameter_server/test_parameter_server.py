"""Parameter servers from Python: without Spark, each a child process of the test."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from support.parameter_servers import server_of, worker
from tfos import _native, parameter_server
from tfos.errors import BadInputError, NodeLostError, TfosError
from tfos.parameter_server import connection
from tfos.parameter_server.process import ParameterServerProcess


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


def test_gradients_of_single_values_are_averaged(serving):
    variables = [np.zeros((), np.float32), np.zeros((), np.float64)]
    options = {"optimizer": parameter_server.Sgd(learning_rate=1.0), "sync_interval": 2}
    with server_of(serving(), variables, **options) as server:
        for gradient in (1, 3):
            server.step([np.full_like(variable, gradient) for variable in variables])
    assert [float(variable) for variable in variables] == [-2, -2]


def push_until_killed(server, key, pushed):
    w = np.zeros(100_000, np.float32)
    with parameter_server.ParameterServer(
        [w], [server], worker(1), key, sync_interval=1, staleness=1
    ) as client:
        while True:
            w += 1
            client.step()
            pushed.set()


@pytest.mark.failure("node killed", "parameter servers")
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


@pytest.mark.failure("parameter server killed", "parameter servers")
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


@pytest.mark.failure("driver killed", "parameter servers")
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
    assert "state.npz was ignored: the servers have values already" in caplog.text
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
        ("combiner must be delta, mean or update-mean", {"combiner": "sum"}),
        ("sync_interval", {"sync_interval": 0}),
        ("staleness", {"staleness": -1}),
        ("RMSprop", {"optimizer": keras.optimizers.RMSprop()}),
        ("clipnorm", {"optimizer": keras.optimizers.SGD(clipnorm=1.0)}),
    ):
        with pytest.raises(BadInputError, match=words):
            server_of(process, w, **options)
    with pytest.raises(BadInputError, match="neither a variable nor an array"):
        server_of(process, [3.0])
    other_order = np.zeros(3, np.dtype(np.float32).newbyteorder("S"))
    with pytest.raises(BadInputError, match="the other way round: pass array.astype"):
        server_of(process, [other_order])
    with pytest.raises(BadInputError, match="can't keep uint8"):
        server_of(process, [np.zeros(3, np.uint8)]).open()
    with server_of(process, w) as server:
        with pytest.raises(BadInputError, match="other variables than the first worker"):
            server_of(process, [np.zeros(4, np.float32)], number=1).open()
        with pytest.raises(BadInputError, match="uses another combiner or optimizer"):
            server_of(process, w, number=1, combiner="update-mean").open()
        server.sync()  # Others' mistakes are not ours.
