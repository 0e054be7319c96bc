"""The tab "TensorFlow" behind the proxy of a standalone Master (`spark.ui.reverseProxy`)."""

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
from support.page.history_server import fetch
from support.page.path_proxy import PathProxy

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
    time.sleep(3600)

spark = SparkSession.builder.getOrCreate()
with tfos.run(spark, lambda ctx: None, nodes=1, input_mode="tensorflow") as ended:
    pass
with tfos.run(spark, stay, nodes=2, input_mode="tensorflow") as running:
    print("clusters", ended.cluster_id, running.cluster_id, flush=True)
"""


@contextlib.contextmanager
def two_clusters(master, conf, directory):
    """Runs the program; the ids of the cluster that has ended and of the one that runs."""
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
            lines = (line for line in driver.stdout if line.startswith("clusters "))
            line = next(lines, None)
            assert line, (directory / "log").read_text()[-6000:]
            yield line.split()[1:]
        finally:
            driver.terminate()
            driver.wait(BOUND_SECONDS)


@pytest.mark.parametrize("has_front", [False, True], ids=["by itself", "behind another proxy"])
def test_the_tab_and_its_links(tmp_path, has_front, leftovers):
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
        ended, running = stack.enter_context(two_clusters(cluster.url, conf, tmp_path))
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
        (page,) = (link for link in links if re.fullmatch(r"http://[^/]+/", link))
        # The page of a cluster is not behind the proxy: the link leads to the driver's host.
        assert "<title>tfos" in fetch(page)
        addresses = {urllib.parse.urljoin(address, link) for link in links - {page}}
        assert f"{address}?id={ended}" in addresses
        assert f"<h4>Cluster {ended}</h4>" in fetch(f"{address}?id={ended}")
        for found in addresses:
            assert found.startswith(f"{base}{ours}/"), f"{found} leads past the proxy"
            # Spark redirects its first page, and now and then loses a part of the address.
            if not found.endswith((".png", f"{ours}/")):
                assert fetch(found)
