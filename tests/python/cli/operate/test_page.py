"""The commands of docs/operate.md do on a running cluster what the page says."""

from __future__ import annotations

import os
import subprocess

import pytest

from support import pages
from support.operating import start, wait_for_files
from support.places import ROOT
from support.programs import operate
from support.waiting import BOUND_SECONDS
from tfos.base import executable
from tfos.errors import ClusterStoppedError

PAGE = ROOT / "docs/operate.md"
#: These go on until the cluster ends.
ENDLESS = ("tfos top", "tfos logs worker:1 -f")

pytestmark = [pytest.mark.long, pytest.mark.timeout(3 * BOUND_SECONDS)]


def lines():
    """Each command of the page once, in the page's order."""
    blocks = [block for block in pages.blocks(PAGE) if block.language == "sh"]
    commands = [line.partition("#")[0].strip() for b in blocks for line in b.code.splitlines()]
    return list(dict.fromkeys(commands))


def test_the_commands_of_the_page(spark, tmp_path, monkeypatch, leftovers):
    monkeypatch.setenv("PATH", f"{os.path.dirname(executable.path())}:{os.environ['PATH']}")
    cluster = start(spark, operate.say_lines_and_wait, tmp_path)
    wait_for_files(tmp_path, "said")
    (tmp_path / "link.txt").write_text(cluster.page_url)
    shell = {"shell": True, "cwd": tmp_path, "text": True, "stdout": subprocess.PIPE}
    endless = [subprocess.Popen(line, **shell) for line in lines() if line in ENDLESS]
    assert len(endless) == len(ENDLESS)
    for process in endless:
        assert process.stdout.readline()
    for line in lines():
        if line in ENDLESS or line.startswith("tfos stop"):
            continue
        done = subprocess.run(line, timeout=BOUND_SECONDS, **shell)
        assert done.returncode == 0 and done.stdout, line
    assert "tfos stop" in lines()
    done = subprocess.run("tfos stop", timeout=BOUND_SECONDS, **shell)
    assert done.returncode == 0
    for process in endless:
        process.communicate(timeout=BOUND_SECONDS)
        assert process.returncode == 0
    with pytest.raises(ClusterStoppedError, match=r"has stopped the cluster with `tfos stop`"):
        cluster.shutdown()
