"""The link of a cluster's page, and fetching its report."""

import http.server
import threading

import pytest

from support.page.simulated_cluster import SimulatedCluster
from support.waiting import BOUND_SECONDS
from tfos.base.page import PageLink, write_whole
from tfos.errors import BadInputError, TfosError

KEY = "ab" * 32


def test_a_link_is_what_the_driver_prints():
    assert str(PageLink.of("10.0.0.5", 4040, KEY)) == f"http://10.0.0.5:4040/#key={KEY}"
    assert str(PageLink.of("::1", 1, KEY)) == f"http://[::1]:1/#key={KEY}"
    assert KEY not in repr(PageLink.of("::1", 1, KEY)), "a traceback may show it"


def test_a_report_is_fetched_from_the_cluster_alone(monkeypatch):
    # A proxy of the environment would learn the key.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with SimulatedCluster(1) as cluster:
        link = PageLink(f"{cluster.base_url}/", cluster.read_key)
        assert str(link) == cluster.link
        html = link.fetch_report(BOUND_SECONDS)
        assert html.startswith(b"<!DOCTYPE html>") and cluster.cluster_id.encode() in html
        assert cluster.read_key.encode() not in html
        with pytest.raises(BadInputError, match="each cluster has its own"):
            PageLink(f"{cluster.base_url}/", KEY).fetch_report(BOUND_SECONDS)
    with pytest.raises(TfosError, match="does not answer"):
        link.fetch_report(BOUND_SECONDS)


class Broken(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(503, "Gone fishing")

    def log_message(self, *_words):
        """Its requests are nobody's concern."""


def test_another_answer_is_told():
    server = http.server.HTTPServer(("127.0.0.1", 0), Broken)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        with pytest.raises(TfosError, match="answered 503 Gone fishing"):
            PageLink.of("127.0.0.1", server.server_port, KEY).fetch_report(BOUND_SECONDS)
    finally:
        thread.join()
        server.server_close()


@pytest.mark.parametrize("name", ["missing/report.html", "folder"])
def test_a_file_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "folder").mkdir()
    file = tmp_path / name
    with pytest.raises(OSError) as caught:
        write_whole(file, b"new")
    assert caught.value.filename == str(file) and str(file) in str(caught.value)
    assert ".report-" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"], "nothing is left"


def test_a_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "report.html"
    file.write_bytes(b"old")
    write_whole(file, b"new")
    assert file.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
