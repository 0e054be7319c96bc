"""What somebody who listens between two hosts finds in all traffic of a whole run: nothing."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import subprocess
import sys

import numpy as np
import pytest

from connect_server import ConnectServer
from spark_cluster import Host, SparkCluster
from support.namespaces import captured, joined_host
from support.places import IMPORT_PATHS, SCRIPTS, TESTS
from support.scripts.captured_driver import OURS, ROW, THEIRS, WEIGHT

BOUND_SECONDS = 600
# The driver, a process of its own, starts Spark.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(BOUND_SECONDS + 60)]
_DRIVER = SCRIPTS / "captured_driver.py"
_PURPOSES = ("join", "feed", "tensors", "parameters", "ask", "read", "scrape", "steer", "operate")


@pytest.fixture
def other_host():
    with joined_host(OURS, THEIRS) as host:
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


def capture(other_host, directory, what):
    """All that crosses the cable, and the tokens of the clusters by `spark.tfos.encrypt`."""
    with contextlib.ExitStack() as stack:
        streams = stack.enter_context(captured(THEIRS, directory))
        cluster = stack.enter_context(
            SparkCluster(
                workers=2,
                cores=1,
                memory="1g",
                directory=directory / "spark",
                hosts=(Host(OURS), other_host),
            )
        )
        if what == "connect":
            conf = {"spark.driver.host": OURS, "spark.locality.wait": "0s"}
            cluster = stack.enter_context(
                ConnectServer(cluster.url, directory / "server", conf, IMPORT_PATHS)
            )
        done = subprocess.run(
            [sys.executable, str(_DRIVER), cluster.url, str(directory), what],
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
    return list(streams().values()), json.loads((directory / "secrets.json").read_text())


def forms_of(key):
    return key, key.hex().encode()


def keys_of(token):
    """The keys that are made of the token, by purpose."""
    root = bytes.fromhex(token)
    return {
        name: hmac.digest(root, f"tfos key {name}".encode(), hashlib.sha256) for name in _PURPOSES
    }


def unmasked(stream):
    """What an agent says over its WebSocket, which masks it and sends the mask along."""
    head = stream.find(b"GET /v1/agent HTTP/1.1\r\n")
    if head < 0:
        return b""
    at = stream.index(b"\r\n\r\n", head) + 4
    said = []
    while at + 2 <= len(stream):
        length, at = stream[at + 1] & 0x7F, at + 2
        if length >= 126:
            size = 2 if length == 126 else 8
            length, at = int.from_bytes(stream[at : at + size], "big"), at + size
        mask = np.frombuffer(stream[at : at + 4], np.uint8)
        masked = np.frombuffer(stream[at + 4 : at + 4 + length], np.uint8)
        if len(mask) == 4:
            said.append((masked ^ np.resize(mask, masked.shape)).tobytes())
        at += 4 + length
    return b"".join(said)


def everything_of(streams):
    return b"\n".join([*streams, *map(unmasked, streams)])


def assert_nothing_is_open(everything, tokens, patterns):
    """A listener finds no key. He finds what matches a pattern only where nothing is encrypted.

    patterns: gives them by name, for a value of `spark.tfos.encrypt` and its marker.
    """

    def times(encrypt):
        """How often what a listener looks for has crossed the cable."""
        return {
            name: len(re.findall(pattern, everything))
            for name, pattern in patterns(encrypt, f"conspicuous-{encrypt}").items()
        }

    assert not any(times("auto").values()), times("auto")
    # What is open is found, each kind of it, so the test would have found the rest.
    assert all(times("false").values()), times("false")
    # Whatever `encrypt` says, neither token nor keys cross: both ends prove that they know them.
    for token in (*tokens["auto"], *tokens["false"]):
        for key in (bytes.fromhex(token), *keys_of(token).values()):
            assert not any(form in everything for form in forms_of(key))


def test_a_listener_finds_no_secret_no_row_and_no_weight(other_host, private_spark, tmp_path):
    streams, tokens = capture(other_host, tmp_path, "everything")
    assert_nothing_is_open(
        everything_of(streams),
        tokens,
        lambda encrypt, marker: {
            "column": f"{marker}-column".encode(),
            "object": f"{marker}-object".encode(),
            # Which rows' results cross is Spark's choice.
            "result": rf"{marker}-object-\d+-result".encode(),
            "class": ROW[encrypt].__name__.encode(),
            "weights": re.escape(np.full(2, WEIGHT[encrypt], np.float32).tobytes()),
            "metric": f"conspicuous_{encrypt}_metric".encode(),
            "failure": f"{marker}-failure".encode(),
        },
    )


@pytest.mark.parametrize(
    ("what", "marked"),
    [("tensorboard", "summary"), ("elastic", "state"), ("connect", "column")],
)
def test_a_listener_finds_nothing_of_what_some_clusters_have_beside(
    other_host, private_spark, tmp_path, what, marked
):
    streams, tokens = capture(other_host, tmp_path, what)
    assert_nothing_is_open(
        everything_of(streams), tokens, lambda _, marker: {marked: f"{marker}-{marked}".encode()}
    )


def test_without_sparks_encryption_the_keys_of_jobs_cross_and_no_others(other_host, tmp_path):
    """As docs/security.md says; and that keys are found where they do cross."""
    streams, tokens = capture(other_host, tmp_path, "keys")
    everything = b"\n".join(streams)
    (token,) = tokens["auto"]
    found = {
        name
        for name, key in keys_of(token).items()
        if any(form in everything for form in forms_of(key))
    }
    # Those of the launch and of feed tasks travel inside Spark's jobs. The driver keeps the token
    # and those for people and Prometheus; Spark Connect alone has one to steer.
    assert found == {"join", "feed", "tensors", "parameters", "ask"}
    assert not any(form in everything for form in forms_of(bytes.fromhex(token)))
