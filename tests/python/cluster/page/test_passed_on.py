"""The page as Spark's UI passes it on, of a session that has the jar: what it takes, what it
refuses, and how it looks in a browser. The nodes are simulated."""

from __future__ import annotations

import http.client
import http.server
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from support.page.browsers import browser, complaints, text_of, wait_for_looks
from support.page.shown import charts, row
from support.waiting import BOUND_SECONDS, wait_for

GONE = b"the coordinator does not answer Spark's driver\n"
UNKNOWN = b"no cluster of this id runs in this application\n"
#: As many as are passed on at the same time (PassedOnPages.java), and as many that are about the
#: output and stacks of nodes.
MOST_AT_A_TIME = 16
WRONG_KEY = "0" * 64


@pytest.fixture(scope="module")
def spark(spark_on):
    return spark_on("local[1]", **{"spark.ui.enabled": "true", "spark.ui.port": "0"})


class SparkUi:
    """Spark's UI, which passes on the pages of clusters."""

    def __init__(self, spark):
        self._context = spark.sparkContext._jsc.sc()
        self._opened = {}
        self._events = spark._jvm.tfos.internal.ui.ClusterEvents
        assert self._events.attach(self._context)
        self.port = int(spark.sparkContext.uiWebUrl.rpartition(":")[2])

    def open(self, cluster_id, address):
        self._opened[cluster_id] = address
        return self._events.open(self._context, cluster_id, address)

    def close(self, cluster_id):
        self._events.close(self._context, cluster_id, self._opened[cluster_id])

    def page(self, cluster_id):
        return f"http://127.0.0.1:{self.port}{path_of(cluster_id)}"

    def ask(self, path, method="GET", **fields):
        """Status, fields and body, for a path as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND_SECONDS)
        try:
            connection.request(method, path, headers=fields)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


def path_of(cluster_id):
    return f"/TensorFlow/page/{cluster_id}/"


def accepted(key):
    """As the page sends its key."""
    return {"Accept": f"*/*;tfos-key={key}"}


@pytest.fixture
def ui(spark):
    return SparkUi(spark)


@pytest.fixture
def passed_on(ui, small):
    """The path of the page of a cluster, below Spark's UI."""
    assert ui.open(small.cluster_id, f"{small.base_url}/")
    yield path_of(small.cluster_id)
    ui.close(small.cluster_id)


def test_data_need_the_key_in_accept_or_as_a_bearer(ui, small, passed_on):
    key = small.read_key
    bearer = {"Authorization": f"Bearer {key}"}
    # A gateway in front may have its own password there.
    both = {**accepted(key), "Authorization": "Basic dTpw"}
    for path in ("v1/status", "v1/history?range=recent&nodes=0,1&events_from=0", "v1/report"):
        for right in (accepted(key), bearer, both):
            status, fields, body = ui.ask(passed_on + path, **right)
            assert status == 200 and small.cluster_id.encode() in body, path
            assert "form-action 'none'" in fields["Content-Security-Policy"]
            assert fields["Cache-Control"] == "no-store"
            assert "Set-Cookie" not in fields
        for wrong in ({}, accepted(WRONG_KEY), accepted(key[1:]), accepted(f"{key}0")):
            status, fields, body = ui.ask(passed_on + path, **wrong)
            assert (status, body) == (401, b""), (path, wrong)
            assert fields["WWW-Authenticate"] == "Bearer"
    assert ui.ask(f"{passed_on}v1/status?key={key}")[0] == 401


def test_output_and_stacks_of_nodes_need_the_key_too(ui, small, passed_on):
    for path in ("v1/output?node=7&lines=200&wait_ms=10", "v1/stacks?node=7"):
        status, _, body = ui.ask(passed_on + path, **accepted(small.read_key))
        assert status == 404 and b"no node of this number" in body, path
        assert ui.ask(passed_on + path)[0] == 401
    assert ui.ask(f"{passed_on}v1/stacks?node=7", "POST", **accepted(small.read_key))[0] == 405


def test_the_files_of_the_page_need_no_key(ui, passed_on):
    for path, kind in (
        ("", "text/html"),
        ("page/data.js", "text/javascript"),
        ("page/icon.svg", "image/svg+xml"),
    ):
        status, fields, body = ui.ask(passed_on + path)
        assert status == 200 and body
        assert fields["Content-Type"].partition(";")[0] == kind
        assert "default-src 'self'" in fields["Content-Security-Policy"]


def test_commas_may_come_encoded(ui, small, passed_on):
    query = "range=recent&nodes=0%2C1&events_from=0"
    status, _, body = ui.ask(f"{passed_on}v1/history?{query}", **accepted(small.read_key))
    assert status == 200 and b'"nodes"' in body


@pytest.mark.parametrize(
    "path",
    [
        "metrics",
        "v1/profile?node=0",
        "v1/failure",
        "v1/agent",
        "v1/status/",
        "tensorboard/",
        "page/index.html",
        "page/",
        "../",
        "..%2f",
        "%2e%2e/%2e%2e/metrics",
        "v1/..%2f..%2fmetrics",
        "/v1/status",
        "http://127.0.0.1/",
        "v1/status%0d%0aX:%20y",
        "v1/status?page=%0d%0aX:%20y",
        "v1/status?page=http://127.0.0.1/",
        "v1/status?%zz",
        f"v1/status?{'a' * 4097}",
    ],
)
def test_what_the_page_does_not_ask_for_is_refused(ui, small, passed_on, path):
    status, _, body = ui.ask(passed_on + path, **accepted(small.read_key))
    # Spark's UI itself refuses some, or leads to its own first page.
    assert status in (302, 400, 404), body
    assert small.cluster_id.encode() not in body


def test_nothing_but_get_is_passed_on(ui, small, passed_on):
    for method in ("POST", "PUT", "DELETE"):
        assert ui.ask(f"{passed_on}v1/status", method, **accepted(small.read_key))[0] == 405


def test_a_cluster_that_nobody_has_opened_is_unknown(ui, small, passed_on):
    for path in (path_of("0" * 16), path_of("x%2fy"), "/TensorFlow/page/"):
        status, _, body = ui.ask(f"{path}v1/status", **accepted(small.read_key))
        assert status in (400, 404) and small.cluster_id.encode() not in body
    assert ui.ask(path_of("0" * 16))[::2] == (404, UNKNOWN)
    ui.close(small.cluster_id)
    assert ui.ask(passed_on)[::2] == (404, UNKNOWN)


def test_the_first_address_of_a_cluster_counts(ui, small, passed_on):
    other = "http://127.0.0.1:1/"
    assert not ui.open(small.cluster_id, other)
    ui.close(small.cluster_id)  # By somebody who does not know where it is.
    assert ui.ask(f"{passed_on}v1/status", **accepted(small.read_key))[0] == 200
    assert ui.open(small.cluster_id, f"{small.base_url}/")
    ui.close(small.cluster_id)
    assert not ui.open(small.cluster_id, other), "nor does it lead elsewhere after its end"
    assert ui.ask(passed_on)[::2] == (404, UNKNOWN)


@pytest.mark.parametrize(
    "address",
    ["file:///etc/", "http://127.0.0.1:1/x/", "http://u@127.0.0.1:1/", "ftp://h/", "h:1/"],
)
def test_only_coordinators_have_pages(ui, address):
    with pytest.raises(Exception, match="not the address of a coordinator"):
        ui.open("other", address)
    assert ui.ask(path_of("other"))[::2] == (404, UNKNOWN)


def test_nothing_of_another_program_at_the_coordinators_port_is_shown(ui):
    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"of somebody else")

        def log_message(self, *_words):
            """Nobody wants to know."""

    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        ui.open("ended", f"http://127.0.0.1:{server.server_port}/")
        assert ui.ask(path_of("ended"))[::2] == (502, GONE)
        server.shutdown()
        thread.join()
    assert ui.ask(path_of("ended"))[::2] == (502, GONE), "nobody listens there any more"
    ui.close("ended")


@pytest.mark.long
@pytest.mark.parametrize(
    ("asked", "has_room"), [("", "v1/output?node=0"), ("v1/output?node=0", "v1/status")]
)
def test_a_coordinator_that_does_not_answer_leaves_room_for_other_pages(ui, asked, has_room):
    silent = "silent" + "OfNodes" * bool(asked)
    path = path_of(silent) + asked
    with (
        socket.create_server(("127.0.0.1", 0), backlog=MOST_AT_A_TIME + 1) as server,
        ThreadPoolExecutor(MOST_AT_A_TIME + 1) as askers,
    ):
        ui.open(silent, f"http://127.0.0.1:{server.getsockname()[1]}/")
        waiting = [askers.submit(ui.ask, path) for _ in range(MOST_AT_A_TIME)]
        came = [server.accept()[0] for _ in range(MOST_AT_A_TIME)]
        assert ui.ask(path)[0] == 503
        other = askers.submit(ui.ask, path_of(silent) + has_room)
        came.append(server.accept()[0])
        assert ui.ask("/jobs/")[0] == 200
        for connection in came:
            connection.close()
        assert {answer.result()[::2] for answer in (*waiting, other)} == {(502, GONE)}
    ui.close(silent)


def test_the_page_in_a_browser(ui, small, passed_on):
    link = ui.page(small.cluster_id)
    with browser() as driver:
        driver.get(f"{link}#key={small.read_key}")
        wait_for(lambda: charts(driver), "curves")
        assert row(driver, "worker:0")["Step"] == "3"
        assert text_of(driver, "#state") == "running"
        # Other pages of Spark's UI, and behind YARN's proxy of other people's, have this storage.
        assert driver.execute_script("return {...sessionStorage, ...localStorage}") == {}
        assert driver.current_url == link and driver.get_cookies() == []
        driver.refresh()
        wait_for_looks(driver)
        # What the coordinator shows last comes through, too.
        for node_id in range(2):
            small.end(node_id)
        wait_for(lambda: text_of(driver, "#state") == "finished", "the end")
        assert complaints(driver) == []
        ui.close(small.cluster_id)
        told = "no cluster of this id runs in this application any more"
        wait_for(lambda: told in text_of(driver, "#notice"), "that nobody answers any more")


def test_tensorboard_is_shown_on_the_direct_page_alone(ui, small, passed_on):
    small.run(0, tensorboard={"pid": 3, "port": 6006})
    wait_for(lambda: small.coordinator.nodes()[0].get("tensorboard"), "what the node says")
    with browser() as driver:
        for page, shown in ((f"{small.base_url}/", True), (ui.page(small.cluster_id), False)):
            driver.get(f"{page}#key={small.read_key}")
            wait_for_looks(driver)
            assert driver.find_element(By.ID, "tensorboard").is_displayed() == shown


def test_asks_for_the_key_where_the_link_has_none(ui, small, passed_on):
    with browser() as driver:
        driver.get(ui.page(small.cluster_id))
        wait_for(lambda: "needs the key" in text_of(driver, "#ask-key"), "the question for the key")
        assert not driver.find_element(By.ID, "content").is_displayed()
        driver.switch_to.active_element.send_keys(small.read_key + Keys.ENTER)
        wait_for_looks(driver)
