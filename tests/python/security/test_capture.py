"""What somebody who listens between two hosts finds in all traffic of a whole run: nothing."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import subprocess
import sys

import numpy as np
import pytest

from spark_cluster import Host, SparkCluster
from support.namespaces import captured, joined_host
from support.places import SCRIPTS, TESTS
from support.scripts.captured_driver import OURS, ROW, WEIGHT

BOUND_SECONDS = 600
# The driver, a process of its own, starts Spark.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(BOUND_SECONDS + 60)]
_THEIRS = "10.213.79.2"
_DRIVER = SCRIPTS / "captured_driver.py"
_PURPOSES = ("join", "feed", "tensors", "parameters", "ask", "read", "scrape", "steer")


@pytest.fixture
def other_host():
    with joined_host(OURS, _THEIRS) as host:
        yield host


@pytest.fixture
def private_spark(tmp_path, monkeypatch):
    """Spark's own traffic, with which keys and rows travel, is encrypted, too."""
    settings = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(16),
        "spark.network.crypto.enabled": "true",
    }
    directory = tmp_path / "conf"
    directory.mkdir()
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (directory / "spark-defaults.conf").write_text(text)
    monkeypatch.setenv("SPARK_CONF_DIR", str(directory))


@pytest.fixture
def traffic(other_host, private_spark, tmp_path):
    """All that has crossed the cable, and the tokens of the clusters by `spark.tfos.encrypt`."""
    with (
        captured(_THEIRS, tmp_path) as streams,
        SparkCluster(
            workers=2,
            cores=1,
            memory="1g",
            directory=tmp_path / "spark",
            hosts=(Host(OURS), other_host),
        ) as cluster,
    ):
        done = subprocess.run(
            [sys.executable, str(_DRIVER), cluster.url, str(tmp_path)],
            env={
                **os.environ,
                "SPARK_LOCAL_IP": OURS,
                "PYTHONPATH": str(TESTS),
                "PYSPARK_PYTHON": sys.executable,
            },
            capture_output=True,
            text=True,
            timeout=BOUND_SECONDS,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return streams(), json.loads((tmp_path / "secrets.json").read_text())


def keys_of(token):
    """The token and the keys made of it, as bytes and as text."""
    root = bytes.fromhex(token)
    keys = [hmac.digest(root, f"tfos key {name}".encode(), hashlib.sha256) for name in _PURPOSES]
    return [form for key in (root, *keys) for form in (key, key.hex().encode())]


def test_a_listener_finds_no_secret_no_row_and_no_weight(traffic):
    streams, tokens = traffic
    everything = b"\n".join(streams.values())

    def times(encrypt):
        """How often what a listener looks for has crossed the cable."""
        weights = np.full(2, WEIGHT[encrypt], np.float32).tobytes()
        marker = f"conspicuous-{encrypt}"
        found = {
            name: everything.count(pattern)
            for name, pattern in {
                "column": f"{marker}-column".encode(),
                "object": f"{marker}-object".encode(),
                "result": f"{marker}-object-1-result".encode(),
                "class": ROW[encrypt].__name__.encode(),
                "weights": weights,
                "metric": f"conspicuous_{encrypt}_metric".encode(),
                "failure": f"{marker}-failure".encode(),
            }.items()
        }
        found["keys"] = sum(
            everything.count(form) for token in tokens[encrypt] for form in keys_of(token)
        )
        return found

    assert not any(times("auto").values()), times("auto")
    # What is open is found, so the test would have found the rest.
    open_to_all = times("false")
    assert open_to_all.pop("keys") == 0, "keys must not cross the network even in the open"
    # WebSocket masks what agents say, and the only node may be beside the only task.
    always = ("column", "object", "class", "weights")
    assert all(open_to_all[name] for name in always), open_to_all
