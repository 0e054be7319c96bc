"""Which session's settings Hadoop's client of a process takes, where it has known several."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from support.waiting import BOUND_SECONDS
from tfos.cluster import launch
from tfos.files import hadoop_settings
from tfos.files.hadoop_client import SCHEMES_VARIABLE
from tfos.files.hadoop_settings import PROPERTIES_VARIABLE, adopt

FIRST = {PROPERTIES_VARIABLE: json.dumps({"fs.s3a.endpoint": "a"}), SCHEMES_VARIABLE: "s3a"}
SECOND = {PROPERTIES_VARIABLE: json.dumps({"fs.s3a.endpoint": "b"})}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """That of a process in which nothing says anything of Hadoop."""
    variables = {n: v for n, v in os.environ.items() if not n.startswith("TFOS_HADOOP_")}
    monkeypatch.setattr(os, "environ", variables)
    monkeypatch.setattr(hadoop_settings, "_adopted", {})
    return variables


def settings_in(variables):
    return {name: value for name, value in variables.items() if name.startswith("TFOS_HADOOP_")}


def test_a_sessions_settings_take_the_place_of_those_before(environment):
    for given in (FIRST, SECOND, FIRST, {}):
        adopt(given)
        assert settings_in(environment) == given


def test_what_the_process_has_of_its_own_stays(environment):
    own = environment[PROPERTIES_VARIABLE] = "{}"
    adopt(FIRST)
    assert settings_in(environment) == {**FIRST, PROPERTIES_VARIABLE: own}
    environment[SCHEMES_VARIABLE] = "abfs"  # Its program has thought better of it.
    for given in (SECOND, {}):
        adopt(given)
        assert settings_in(environment) == {PROPERTIES_VARIABLE: own, SCHEMES_VARIABLE: "abfs"}


def test_hidden_secrets_are_not_the_process_own(environment):
    secret = {PROPERTIES_VARIABLE: json.dumps({"fs.s3a.secret.key": "x", "a.test": "1"})}
    for _ in range(2):
        adopt(secret)
        assert settings_in(environment) == secret
        hadoop_settings.hide_secrets()
        assert json.loads(environment[PROPERTIES_VARIABLE]) == {"a.test": "1"}
    adopt(SECOND)
    assert settings_in(environment) == SECOND


def test_a_node_gets_the_settings_of_its_own_session(environment):
    """Also where the process that starts it has adopted those of another one."""
    environment["TFOS_HADOOP_JVM_MEMORY"] = "1g"
    adopt(FIRST)
    of_node = launch._node_environment(keep_omp_num_threads=False, hadoop=SECOND)
    assert settings_in(of_node) == {**SECOND, "TFOS_HADOOP_JVM_MEMORY": "1g"}


#: DIRECTORY... LIBJVM: what sessions with these directories see, one after the other.
SESSIONS = """
import ctypes, json, sys
from tfos.files.hadoop_client import client
from tfos.files.hadoop_settings import PROPERTIES_VARIABLE, adopt

ctypes.CDLL(sys.argv.pop())  # Another library may have loaded Java.

def seen_with(*directories):
    for directory in directories:
        mount = {"fs.viewfs.mounttable.session.link./files": directory}
        adopt({PROPERTIES_VARIABLE: json.dumps(mount)})
    return [name for name, _ in client().list("viewfs://session/files")]

print(json.dumps([seen_with(*sys.argv[1:]), seen_with(sys.argv[1])]))
"""


def test_the_client_takes_the_settings_of_the_last_session_before_its_first_use(
    environment, tmp_path
):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of-the-{name}").touch()
    directories = [(tmp_path / name).as_uri() for name in ("first", "second")]
    java = os.path.realpath(shutil.which("java"))
    libjvm = os.path.join(os.path.dirname(os.path.dirname(java)), "lib", "server", "libjvm.so")
    done = subprocess.run(
        [sys.executable, "-c", SESSIONS, *directories, libjvm],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["of-the-second"], ["of-the-second"]]
    assert done.stderr.count("don't take effect in it. Start the process again") == 1
