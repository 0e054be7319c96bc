"""Models of Keras and variables of TensorFlow on parameter servers, without Spark."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from support.parameter_servers import server_of
from tfos import parameter_server
from tfos.errors import BadInputError


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


def frozen_and_not():
    import keras

    layers = [keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False) for _ in range(2)]
    layers[0].trainable = False
    model = keras.Sequential([keras.layers.Input((1,)), *layers])
    return model, layers[0]


def test_what_is_trainable_stays_until_the_cluster_ends(serving):
    sgd = {"optimizer": parameter_server.Sgd(learning_rate=0.1)}
    for options, told in ((sgd, "other variables"), ({}, "others of them are trainable")):
        process = serving()
        model, frozen = frozen_and_not()
        server = server_of(process, model, **options)
        with server:
            pass
        frozen.trainable = True
        with pytest.raises(BadInputError, match="has changed since ctx.parameter_server"):
            server.open()
        with pytest.raises(BadInputError, match=f"{told}.*one optimizer until the cluster ends"):
            server_of(process, model, number=1, **options).open()
        frozen.trainable = False
        server.open()


def test_a_fit_within_with_leaves_the_servers_connected(serving):
    import keras

    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((4, 1), np.float32)
    server = server_of(serving(), model, sync_interval=1)
    with server:
        for epoch in range(1, 3):
            model.fit(x, x, batch_size=2, verbose=0, callbacks=[server.callback()])
            assert server.version == 2 * epoch
    model.fit(x, x, batch_size=2, verbose=0, callbacks=[server.callback()])
    with pytest.raises(BadInputError, match="not connected"):
        server.sync()


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


def model_on_the_servers(serving, optimizer):
    import keras

    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    server = server_of(serving(), model, optimizer=optimizer, sync_interval=1)
    model.compile(server.keras_optimizer(), "mse")
    return model, server


@pytest.mark.parametrize(
    "name, optimizer",
    [
        ("SGD", parameter_server.Sgd(0.25, momentum=0.5)),
        ("Adam", parameter_server.Adam(0.25, beta_1=0.5)),
    ],
)
def test_a_saved_model_has_the_optimizer_of_the_servers(serving, tmp_path, name, optimizer):
    import keras

    model, server = model_on_the_servers(serving, optimizer)
    x = np.ones((4, 1), np.float32)
    model.fit(x, x, batch_size=2, verbose=0, callbacks=[server.callback()])
    model.save(tmp_path / "model.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = keras.models.load_model(tmp_path / "model.keras")
    assert type(again.optimizer) is getattr(keras.optimizers, name)
    config = again.optimizer.get_config()
    assert config["learning_rate"] == 0.25
    assert config["beta_1" if name == "Adam" else "momentum"] == 0.5
    assert int(again.optimizer.iterations) == 0
    again.fit(x, x, verbose=0)
    assert "tfos" not in (tmp_path / "model.keras").read_bytes().decode("latin-1")


def test_what_would_change_the_rate_of_the_servers_is_refused(serving):
    import keras

    class Own(keras.callbacks.LearningRateScheduler):
        """A program's own."""

    model, server = model_on_the_servers(serving, parameter_server.Sgd(0.3))
    x = np.ones((4, 1), np.float32)
    for callback in (
        keras.callbacks.ReduceLROnPlateau("loss"),
        Own(lambda epoch, rate: rate / 2),
    ):
        with pytest.raises(BadInputError, match=f"{type(callback).__name__}: an optimizer on"):
            model.fit(x, x, verbose=0, callbacks=[callback, server.callback()])
    with pytest.raises(BadInputError, match="keeps the learning rate"):
        model.optimizer.learning_rate = 0.1
    # Callbacks that set it to what it is change nothing.
    model.optimizer.learning_rate = float(model.optimizer.learning_rate)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.3)


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
    counters = [tf.Variable([7, 8], dtype=tf.int64)]
    with pytest.raises(BadInputError, match="whole numbers have no mean"):
        server_of(process, variables + counters, combiner="mean", workers=2).open()
    with server_of(process, variables, sync_interval=1, combiner="mean", workers=2) as server:
        for variable in variables:
            variable.assign_add(tf.cast([2, 4], variable.dtype))
        server.step()
    for variable in variables:
        assert tf.cast(variable, tf.float32).numpy().tolist() == [2, 4]


def test_keras_on_jax_is_refused():
    model = SimpleNamespace(jax_state_sync=None)  # Models have it with that backend alone.
    callback = parameter_server.ParameterServer.callback(SimpleNamespace())
    callback.set_model(model)
    with pytest.raises(BadInputError, match="with JAX, Keras takes the values out"):
        callback.on_train_begin()
