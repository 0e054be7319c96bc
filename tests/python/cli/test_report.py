"""`tfos report`."""

import os
import pty
import subprocess

from support.page.simulated_cluster import SimulatedCluster
from support.waiting import BOUND_SECONDS
from tfos.base import executable


def report(*arguments, link=""):
    return subprocess.run(
        [executable.path(), "report", *arguments],
        input=link + "\n",
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
    )


def test_writes_the_page_of_a_running_cluster(tmp_path):
    file = tmp_path / "run.html"
    with SimulatedCluster(1) as cluster:
        done = report("-o", str(file), link=cluster.link)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{file}: ")
        assert cluster.cluster_id in file.read_text()
        wrong = report("-o", str(file), link=cluster.link[:-8] + "00000000")
        assert wrong.returncode == 2 and "does not open the cluster" in wrong.stderr
        nowhere = report("-o", str(tmp_path / "none" / "run.html"), link=cluster.link)
        assert nowhere.returncode == 1 and "No such file" in nowhere.stderr
    ended = report("-o", str(file), link=cluster.link)
    assert ended.returncode == 1 and "does not answer" in ended.stderr
    assert cluster.cluster_id in file.read_text()


def test_says_what_a_link_is():
    for link in ("", "worker:0"):
        done = report(link=link)
        assert done.returncode == 2 and "expected http://HOST:PORT/#key=KEY" in done.stderr


def test_a_terminal_does_not_show_the_key(tmp_path):
    file = tmp_path / "run.html"
    with SimulatedCluster(1) as cluster:
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(executable.path(), ["tfos", "report", "-o", str(file)])
        shown = b""
        while b"Link (" not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, cluster.link.encode() + b"\n")
        while b"bytes" not in shown:
            shown += os.read(terminal, 1000)
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    assert status == 0 and file.exists()
    assert cluster.read_key.encode() not in shown
