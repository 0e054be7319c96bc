"""Executors whose tfos is of another version than the driver's."""

from __future__ import annotations

import socket
import sys

import pytest

import tfos
import tfos.parallel
from tfos.errors import NodeFailedError, TfosError

OLD = "0.0.9"


@pytest.fixture
def spark_with_an_old_tfos(spark_on, tmp_path):
    """A session whose tasks find a tfos that has little of what this one has."""
    package = tmp_path / "tfos"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_version.py").write_text(f'__version__ = "{OLD}"\n')
    (package / "errors.py").write_text("class TfosError(RuntimeError):\n    pass\n")
    return spark_on("local[1]", **{"spark.executorEnv.PYTHONPATH": str(tmp_path)})


def test_another_version_on_an_executor_is_named_with_its_host(spark_with_an_old_tfos):
    expected = (
        f"{sys.executable} on {socket.gethostname()} has tfos {OLD}, and the driver has tfos "
        f"{tfos.__version__}: install the same version on all hosts"
    )
    with pytest.raises(NodeFailedError) as raised:
        tfos.run(spark_with_an_old_tfos, print, nodes=1)
    assert raised.value.failure["step"] == "launch the nodes"
    assert raised.value.failure["message"].startswith(expected)

    with pytest.raises(TfosError) as raised:
        tfos.parallel.run(spark_with_an_old_tfos, print, instances=1)
    assert expected in str(raised.value) and "PythonException" not in str(raised.value)
