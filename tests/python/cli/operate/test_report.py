"""`tfos report`: the page of a running cluster as one file."""

from support.operating import tfos
from support.page.simulated_cluster import SimulatedCluster

DONE, FAILED, USAGE, NO_ANSWER = 0, 1, 2, 3


def test_the_page_of_the_only_cluster_is_written(tmp_path):
    file = tmp_path / "run.html"
    with SimulatedCluster(1) as cluster:
        done = tfos("report", "-o", str(file))
        assert done.returncode == DONE, done.stderr
        assert done.stdout == f"{file}: {file.stat().st_size} bytes\n"
        assert file.stat().st_mode & 0o7777 == 0o600
        written = file.read_text()
        assert written.startswith("<!DOCTYPE html>") and cluster.cluster_id in written
        assert cluster.read_key not in written and cluster.token not in written
        nowhere = tfos("report", "-o", str(tmp_path / "none" / "run.html"))
        assert nowhere.returncode == USAGE
        assert f"can't write {tmp_path}/none/run.html: No such file" in nowhere.stderr
    ended = tfos("report", "-o", str(file))
    assert ended.returncode == FAILED and "none of your clusters runs on this host" in ended.stderr
    assert file.read_text() == written, "what was there stays"
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"run.html"}


def test_one_of_several_clusters_is_chosen_by_its_id(tmp_path):
    file = tmp_path / "run.html"
    with SimulatedCluster(1) as one, SimulatedCluster(1) as two:
        done = tfos("report", two.cluster_id[:6], "-o", str(file))
        assert done.returncode == DONE, done.stderr
        assert two.cluster_id in file.read_text() and one.cluster_id not in file.read_text()


def test_elsewhere_a_link_serves(tmp_path, monkeypatch):
    file = tmp_path / "run.html"
    with SimulatedCluster(1) as cluster:
        monkeypatch.setenv("TFOS_RUNTIME_DIR", "/nowhere")
        done = tfos("report", "--link", "-o", str(file), link=cluster.link)
        assert done.returncode == DONE, done.stderr
        assert cluster.cluster_id in file.read_text()
        wrong = tfos("report", "--link", link=cluster.link[:-8] + "00000000")
        assert wrong.returncode == USAGE and "does not open this cluster" in wrong.stderr
    ended = tfos("report", "--link", "-o", str(file), link=cluster.link)
    assert ended.returncode == NO_ANSWER and "does not answer" in ended.stderr
