"""The tab "TensorFlow" and the page of a cluster, as Spark's UI passes it on, behind the proxy of a
standalone Master (`spark.ui.reverseProxy`)."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import pytest

import spark_cluster
import tfos
from support.page.browsers import browser, complaints
from support.page.history_server import fetch
from support.page.passed_on import said_link, status_of
from support.page.path_proxy import PathProxy
from support.page.shown import cell, charts
from support.waiting import wait_for

BOUND_SECONDS = 300
SPARK_SUBMIT = pathlib.Path(sys.executable).parent / "spark-submit"
# Processes of their own start Spark: the proxy's settings stay in the JVM of a driver.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(BOUND_SECONDS)]

#: A cluster that has ended, and one whose nodes stay until the driver is ended.
PROGRAM = """
import time
from pyspark.sql import SparkSession
import tfos

def stay(ctx):
    for step in range(3600):
        ctx.report(step=7, loss=0.5)
        time.sleep(1)

spark = SparkSession.builder.getOrCreate()
with tfos.run(spark, lambda ctx: None, nodes=1, input_mode="tensorflow") as ended:
    pass
with tfos.run(spark, stay, nodes=2, input_mode="tensorflow") as running:
    print("clusters", ended.cluster_id, running.cluster_id, flush=True)
"""


@contextlib.contextmanager
def two_clusters(master, conf, directory):
    """Runs the program; the ids of the cluster that has ended and of the one that runs, and what the
    driver has said."""
    (directory / "program.py").write_text(PROGRAM)
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    with open(directory / "log", "w+") as log:
        driver = subprocess.Popen(
            [SPARK_SUBMIT, "--master", master, *options, directory / "program.py"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        try:
            # Spark puts a program's standard error, where the progress is, into the output, too.
            said, ids = "", []
            # A thread of the driver says the link of each cluster.
            while not (ids and said.count("page in Spark's UI |") == 2):
                line = driver.stdout.readline()
                assert line, said + (directory / "log").read_text()[-6000:]
                said += line
                if line.startswith("clusters "):
                    ids = line.split()[1:]
            yield (*ids, said)
        finally:
            driver.terminate()
            driver.wait(BOUND_SECONDS)


@pytest.mark.parametrize("has_front", [False, True], ids=["by itself", "behind another proxy"])
def test_the_tab_its_links_and_the_page(tmp_path, has_front, leftovers):
    proxy = {"spark.ui.reverseProxy": "true"}
    with contextlib.ExitStack() as stack:
        if has_front:
            front = stack.enter_context(PathProxy("/spark/"))
            proxy["spark.ui.reverseProxyUrl"] = front.url.rstrip("/")
        cluster = stack.enter_context(
            spark_cluster.SparkCluster(directory=tmp_path / "spark", daemon_options=proxy)
        )
        if has_front:
            front.target = cluster.ui_url
        # Where a browser begins, and what stands before each path in links.
        base, prefix = (front.url, front.url) if has_front else (f"{cluster.ui_url}/", "/")
        conf = {
            **proxy,
            "spark.ui.enabled": "true",
            "spark.ui.port": 0,
            "spark.jars": tfos.jar_path(),
            "spark.executor.memory": "512m",
        }
        ended, running, said = stack.enter_context(two_clusters(cluster.url, conf, tmp_path))
        (application,) = json.loads(fetch(f"{base}json/"))["activeapps"]
        ours = f"proxy/{application['id']}"
        assert f'href="{prefix}{ours}"' in fetch(base), "the Master's page has a link to the UI"

        # Of Spark's own tabs, one has the way to this one.
        assert f'href="{prefix}{ours}/TensorFlow/"' in fetch(f"{base}{ours}/jobs/")
        address = f"{base}{ours}/TensorFlow/"
        tab = fetch(address)
        assert all(f"<td>worker:{index}</td>" in tab for index in range(2)), tab
        assert f"<h4>Cluster {running}</h4>" in tab

        links = set(re.findall(r'(?:href|src)="([^"]+)"', tab))
        # One link leads to the driver's host, for those who reach it.
        (direct,) = (link for link in links if re.fullmatch(r"http://[^/]+/", link))
        assert "<title>tfos" in fetch(direct)
        addresses = {urllib.parse.urljoin(address, link) for link in links - {direct}}
        page = f"{address}page/{running}/"
        assert page in addresses
        assert f"{address}?id={ended}" in addresses
        assert f"<h4>Cluster {ended}</h4>" in fetch(f"{address}?id={ended}")
        for found in addresses:
            assert found.startswith(f"{base}{ours}/"), f"{found} leads past the proxy"
            # Spark redirects its first page, and now and then loses a part of the address.
            if not found.endswith((".png", f"{ours}/")):
                assert fetch(found)

        link = said_link(said, running)
        # Without the setting, a driver does not know where the Master's pages are.
        assert link.startswith(page) if has_front else f"/TensorFlow/page/{running}/" in link
        key = link.partition("#key=")[2]
        assert status_of(f"{page}v1/status", key) == 200
        assert status_of(f"{page}v1/status", "") == status_of(f"{page}v1/status", "0" * 64) == 401
        assert status_of(f"{address}page/{ended}/v1/status", key) == 404
        with browser() as driver:
            driver.get(f"{page}#key={key}")
            wait_for(lambda: charts(driver), "curves")
            for name in ("worker:0", "worker:1"):  # A node reports with its next heartbeat.
                wait_for(lambda name=name: cell(driver, name, "Step") == "7", f"the step of {name}")
            assert complaints(driver) == []
