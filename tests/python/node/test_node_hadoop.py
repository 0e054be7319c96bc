"""hdfs:// in nodes and in TensorBoard: programs that say nothing of tfos reach it, configured as
the Spark session is."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import urllib.error
import uuid
import zipfile

import pytest
import tensorflow as tf

import tfos
from support.coordinator_port import page_of
from support.programs import keras
from support.waiting import wait_for
from tfos.base import executable, import_hook
from tfos.files import hadoop_settings

BOUND_SECONDS = 120


@pytest.fixture(scope="module")
def directory(hadoop):
    """A directory on HDFS with a file of text and events of a run."""
    import tfos.tensorflow  # noqa: F401

    directory = f"{hadoop.hdfs}/nodes"
    tf.io.gfile.makedirs(f"{directory}/out")
    with tf.io.gfile.GFile(f"{directory}/in", "w") as file:
        file.write("read")
    with tf.summary.create_file_writer(f"{directory}/events/run").as_default():
        tf.summary.scalar("loss", 0.5, step=1)
    return directory


def program(ctx):
    import faulthandler

    import tensorflow as tf

    directory, mounted, by_another_scheme = ctx.args
    with tf.io.gfile.GFile(f"{directory}/in") as file:
        text = file.read()
    for other in (mounted, by_another_scheme):
        with tf.io.gfile.GFile(f"{other}/in") as file:
            text += file.read()
    # Takes the handler of SIGSEGV and puts another one there, of which Java, which runs by now,
    # makes use in its compiled code.
    faulthandler.disable()
    faulthandler.enable()
    for _ in range(2000):
        assert tf.io.gfile.exists(f"{directory}/in")
    with tf.io.gfile.GFile(f"{directory}/out/{ctx.node_id}", "w") as file:
        file.write(json.dumps({"text": text, **os.environ}))


def test_nodes_reach_hdfs_as_the_session_says(
    spark, hdfs, directory, mounted_path, tmp_path, leftovers
):
    (tmp_path / "in").write_text(", by a mount of the session, ")
    by_another_scheme = f"webhdfs://{hdfs.http}/nodes"
    with tfos.run(
        spark,
        program,
        nodes=2,
        args=(directory, mounted_path, by_another_scheme),
        input_mode="tensorflow",
        tensorboard=True,
        log_dir=f"{directory}/events",
        hadoop_jvm_memory="128m",
        hadoop_schemes="webhdfs",
    ) as cluster:
        assert runs_shown_by(cluster.tensorboard_url()) == ["run"]
    for node in range(2):
        with tf.io.gfile.GFile(f"{directory}/out/{node}") as file:
            found = json.load(file)
        assert found["text"] == "read, by a mount of the session, read"
        assert found["TFOS_HADOOP_JVM_MEMORY"] == "128m"
        assert found["LD_PRELOAD"].endswith("libjsig.so")


def runs_shown_by(url):
    """What TensorBoard shows once it has read something, in the course of time."""

    def runs():
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return json.loads(page_of(url, "/data/runs"))

    return wait_for(runs, f"a run at {url}")


@pytest.mark.parametrize(
    "is_absolute",
    [
        pytest.param(True, id="absolute"),
        pytest.param(False, id="relative", marks=pytest.mark.long),
    ],
)
def test_summaries_lie_where_tensorboard_looks_whatever_the_default_file_system(
    spark, hadoop, tmp_path, is_absolute
):
    logs = str(tmp_path / "logs") if is_absolute else f"logs-{uuid.uuid4().hex}"
    rows = spark.range(320).selectExpr("array(id / 320, 1.0D) AS x", "id / 320 AS y").coalesce(1)
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    before = configuration.get("fs.defaultFS")
    configuration.set("fs.defaultFS", hadoop.hdfs)
    try:
        with tfos.run(
            spark, keras.with_summaries, nodes=1, tensorboard=True, log_dir=logs
        ) as cluster:
            cluster.train(rows, epochs=3)
            url = cluster.tensorboard_url()
            wait_for(lambda: runs_shown_by(url) == ["train", "worker_0"], "the runs of both")
    finally:
        configuration.set("fs.defaultFS", before)


def test_tfos_tensorboard_shows_what_is_on_hdfs(directory):
    # Not above: nodes import this file, and they find no tools.
    from hadoop_daemons import free_port

    port = free_port()
    command = [
        executable.path(),
        "tensorboard",
        "--logdir",
        f"{directory}/events",
        "--port",
        str(port),
    ]
    tensorboard = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        assert runs_shown_by(f"http://127.0.0.1:{port}") == ["run"]
    finally:
        tensorboard.terminate()
        tensorboard.wait(BOUND_SECONDS)


# Without TensorFlow, which takes longer to import than all of this.
WRONG_PROPERTIES = """
import os, sys
from tfos.files.hadoop_client import client
for properties in ('{"fs.s3a.secret.key": 12345}', '{"fs.hdfs.impl": "no.such.Implementation"}'):
    os.environ["TFOS_HADOOP_PROPERTIES"] = properties
    try:
        client().status(sys.argv[1])
    except Exception as error:
        print(error)
"""
HIDING = """
import os, subprocess, sys
from tfos.files import hadoop_settings
from tfos.files.hadoop_client import client
hadoop_settings.hide_secrets()
subprocess.run(
    [sys.executable, "-c", "import os; print(os.environ['TFOS_HADOOP_PROPERTIES'])"], check=True
)
for own in (None, '{"fs.hdfs.impl": "no.such.Implementation"}'):
    if own:
        os.environ["TFOS_HADOOP_PROPERTIES"] = own
    try:
        client().status(sys.argv[1])
    except Exception as error:
        print(error)
"""
WRITING = """
import sys
from tfos.files.hadoop_client import client
try:
    client().mkdirs(sys.argv[1] + "/of-the-superuser")
except PermissionError as error:
    print(error)
"""


def printed(program, uri, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program, uri],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=BOUND_SECONDS,
        check=True,
    )
    return done.stdout


def test_properties_go_over_the_configuration(hdfs):
    refused, obeyed = printed(WRONG_PROPERTIES, hdfs.uri).splitlines()
    # The value, which may be a secret, is not shown.
    assert "TFOS_HADOOP_PROPERTIES is not a JSON object" in refused and "12345" not in refused
    assert "no.such.Implementation" in obeyed


def test_secret_properties_are_for_the_client_alone(hdfs):
    # The client refuses a secret that isn't a text, so it has it.
    given = '{"fs.s3a.secret.key": 12345, "dfs.replication": "1"}'
    of_child, refused, obeyed = printed(HIDING, hdfs.uri, TFOS_HADOOP_PROPERTIES=given).splitlines()
    assert of_child == '{"dfs.replication": "1"}'
    assert "TFOS_HADOOP_PROPERTIES is not a JSON object" in refused
    assert "no.such.Implementation" in obeyed, "the program's own go over them"


def test_secret_properties_are_known_by_their_names(monkeypatch):
    secret = (
        "fs.s3a.secret.key",
        "fs.s3a.bucket.logs.access.key",
        "fs.s3a.session.token",
        "fs.s3a.encryption.key",
        "fs.azure.account.key.logs.blob.core.windows.net",
        "fs.azure.sas.rows.logs.blob.core.windows.net",
        "fs.cos.apikey",
        "fs.b2.application.key",
        "hadoop.security.keystore.java-keystore-provider.password-file",
    )
    others = ("fs.defaultFS", "fs.s3a.endpoint", "dfs.key.provider.uri")
    given = dict.fromkeys((*secret, *others), "x")
    monkeypatch.setenv(hadoop_settings.PROPERTIES_VARIABLE, json.dumps(given))
    hadoop_settings.hide_secrets()
    shown = json.loads(os.environ[hadoop_settings.PROPERTIES_VARIABLE])
    assert shown == dict.fromkeys(others, "x")
    for wrong in ("no JSON", "[1]"):
        monkeypatch.setenv(hadoop_settings.PROPERTIES_VARIABLE, wrong)
        hadoop_settings.hide_secrets()
        assert os.environ[hadoop_settings.PROPERTIES_VARIABLE] == wrong, "the client says so"


def test_hadoop_acts_as_the_user_of_the_application(hdfs):
    assert "user=alice" in printed(WRITING, hdfs.uri, SPARK_USER="alice")
    assert "user=bob" in printed(WRITING, hdfs.uri, SPARK_USER="alice", HADOOP_USER_NAME="bob")


def test_no_properties_no_variable():
    assert hadoop_settings.properties([("spark.app.name", "x")]) == ""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "late_module.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "late_module"
    sys.modules.pop("late_module", None)


def test_an_import_hook_acts_once_the_module_is_complete(module):
    seen = []
    import_hook.call_after_import(module, lambda: seen.append(sys.modules[module].loaded))
    assert seen == []
    import json.tool  # noqa: F401  (another one)

    assert seen == []
    import importlib.util

    assert importlib.util.find_spec(module) is not None and seen == []  # Looked for, not imported.
    imported = __import__(module)
    assert seen == [True] and type(imported.__spec__.loader).__name__ == "SourceFileLoader"
    import importlib

    importlib.reload(imported)
    assert seen == [True]
    import_hook.call_after_import(module, lambda: seen.append("at once"))
    assert seen == [True, "at once"]


def test_an_import_hook_leaves_missing_modules_missing(module, tmp_path):
    pathlib.Path(tmp_path / "late_module.py").unlink()
    finders = list(sys.meta_path)
    import_hook.call_after_import(module, lambda: pytest.fail("there is nothing"))
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match=module):
            __import__(module)
    sys.meta_path[:] = finders


def test_an_import_hook_acts_for_its_own_module_alone(tmp_path, monkeypatch):
    """All modules of a zip file have one loader, and the hook is in the way of that."""
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as both:
        both.writestr("outer_module.py", "import inner_module\nloaded = True\n")
        both.writestr("inner_module.py", "")
    monkeypatch.syspath_prepend(tmp_path / "both.zip")
    seen = []
    import_hook.call_after_import(
        "outer_module", lambda: seen.append(sys.modules["outer_module"].loaded)
    )
    try:
        __import__("outer_module")
        assert seen == [True]
    finally:
        for name in ("outer_module", "inner_module"):
            sys.modules.pop(name, None)
