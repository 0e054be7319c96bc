"""Export and the other helpers of ``compat`` and ``util``, with the real TensorFlow."""

import os
import socket
from types import SimpleNamespace

import pytest
import tensorflow as tf

from tensorflowonspark import TFNode, compat, util
from tfos.errors import BadInputError


def keras3_model():
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    return model, lambda loaded, x: loaded.serve(x)


def legacy_keras_model():
    import tf_keras

    model = tf_keras.Sequential([tf_keras.layers.Dense(2, input_shape=(3,))])
    return model, lambda loaded, x: loaded(x)


def module():
    class Doubler(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 3])])
        def __call__(self, x):
            return (x * 2)[:, :2]

    return Doubler(), lambda loaded, x: loaded(x)


@pytest.fixture(params=[keras3_model, legacy_keras_model, module])
def model_and_call(request):
    return request.param()


def test_the_chief_exports_a_model_that_serves_the_same(model_and_call, tmp_path):
    model, call = model_and_call
    target = tmp_path / "export"
    compat.export_saved_model(model, str(target), is_chief=True)
    x = tf.constant([[1.0, 2.0, 3.0]])
    loaded = tf.saved_model.load(str(target))
    assert "serving_default" in loaded.signatures
    tf.debugging.assert_near(call(loaded, x), model(x))


def test_what_others_export_is_thrown_away(model_and_call, tmp_path, monkeypatch):
    model, _ = model_and_call
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    target = tmp_path / "export"
    compat.export_saved_model(model, str(target), is_chief=False)
    assert not target.exists()
    assert list(scratch.iterdir()) == []


def test_a_session_is_exported_with_its_signatures(tmp_path):
    v1 = tf.compat.v1
    target = str(tmp_path / "export")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], name="x")
        weight = v1.get_variable("w", initializer=3.0)
        session.run(v1.global_variables_initializer())
        signature = {
            "inputs": {"features": x},
            "outputs": {"prediction": x * weight},
            "method_name": v1.saved_model.signature_constants.PREDICT_METHOD_NAME,
        }
        TFNode.export_saved_model(session, target, "serve, extra", {"predict": signature})
        with pytest.raises(ValueError, match="'broken' has no 'outputs'"):
            TFNode.export_saved_model(session, target + "2", "serve", {"broken": {"inputs": {}}})
    loaded = tf.saved_model.load(target, tags=["serve", "extra"])
    result = loaded.signatures["predict"](features=tf.constant([2.0]))
    assert result["prediction"].numpy().tolist() == [6.0]


def test_auto_sharding_is_turned_off():
    options = tf.data.Options()
    compat.disable_auto_shard(options)
    policy = options.experimental_distribute.auto_shard_policy
    assert policy == tf.data.experimental.AutoShardPolicy.OFF


def test_gpus_are_those_that_tensorflow_sees():
    assert compat.is_gpu_available() == bool(tf.config.list_physical_devices("GPU"))


def test_the_address_is_one_of_this_host():
    with socket.socket() as server:
        server.bind((util.get_ip_address(), 0))


def test_find_in_path(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    (second / "tool").touch()
    path = f"{first}{os.pathsep}{second}"
    assert util.find_in_path(path, "tool") == str(second / "tool")
    assert util.find_in_path(path, "other") is False


def test_executor_id_is_kept_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    util.write_executor_id(7)
    assert util.read_executor_id() == 7


def test_single_node_env_gives_instances_of_a_host_different_gpus(tmp_path, monkeypatch):
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\nprintf '0, GPU-a, 5, 9\\n1, GPU-b, 0, 9\\n'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    hosts = ["one", "two", "one"]
    seen = []
    for index in range(3):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # Each is a process of its own.
        util.single_node_env(1, index, hosts)
        seen.append(os.environ["CUDA_VISIBLE_DEVICES"])
    assert seen == ["0", "0", "1"]


def test_single_node_env_takes_gpus_that_the_environment_leaves(tmp_path, monkeypatch):
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\nprintf '0, GPU-a, 5, 9\\n1, GPU-b, 7, 9\\n'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for visible in ("1", ""):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        util.single_node_env(1)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == visible


def test_single_node_env_takes_gpus_of_its_task(monkeypatch):
    from pyspark import TaskContext

    gpus = SimpleNamespace(addresses=["3", "1"])
    task = SimpleNamespace(resources=lambda: {"gpu": gpus})
    monkeypatch.setattr(TaskContext, "get", lambda: task)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    util.single_node_env(1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    with pytest.raises(BadInputError, match=r"3 GPU\(s\) were asked for and Spark assigned 2"):
        util.single_node_env(3)


def test_single_node_env_hides_gpus_where_none_are_asked_for_or_there(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    util.single_node_env(num_gpus=0)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    util.single_node_env(num_gpus=1, worker_index=0)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
