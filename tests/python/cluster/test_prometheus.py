"""deploy/monitoring on a real Prometheus: it finds clusters by their files, scrapes them with the
token, answers what the Grafana board asks, and raises the alerts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml

import tfos
from support.places import ROOT
from support.waiting import wait_for
from tfos.errors import BadInputError
from tfos.keras.rates import OF_COLLECTIVES

MONITORING = ROOT / "deploy/monitoring"
#: tools/fetch_prometheus.sh puts it there; `make test` calls that.
PROGRAMS = ROOT / "build/prometheus/usr/bin"
TOKEN = "a-token-for-tests-of-scraping"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """The directory in which clusters leave their files."""
    return tmp_path_factory.mktemp("clusters")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory, clusters):
    """A function that asks a running Prometheus: its results. Its configuration is the one that users
    copy, with other paths, and shorter intervals."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "token").write_text(TOKEN)
    text = (MONITORING / "prometheus.yml").read_text()
    for shown, here in {
        "/etc/prometheus/tfos-scrape-token": str(folder / "token"),
        "/var/lib/tfos/clusters": str(clusters),
        "15s": "1s",
    }.items():
        assert shown in text
        text = text.replace(shown, here)
    configuration = folder / "prometheus.yml"
    configuration.write_text(text)
    shutil.copy(MONITORING / "alerts.yml", folder)
    subprocess.run([PROGRAMS / "promtool", "check", "config", configuration], check=True)
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            [
                PROGRAMS / "prometheus",
                f"--config.file={configuration}",
                f"--storage.tsdb.path={folder}/data",
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=log,
        )

    def address():
        assert server.poll() is None, (folder / "log").read_text()
        return re.search(r'msg="Listening on" address=(\S+)', (folder / "log").read_text())

    def ask(expression):
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://{where}/api/v1/query?{query}") as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error

    try:
        where = wait_for(address, lambda: (folder / "log").read_text())[1]
        yield ask
    finally:
        server.terminate()
        server.wait()


def train(ctx):
    """Its nodes meet in some operations, and then read what they are fed, each at its own pace."""
    import tensorflow as tf

    from tfos import collective

    for _ in range(3):
        collective.all_reduce(tf.ones([1000]))
        ctx.report(step=0)
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(10)
        ctx.report(step=1, loss=0.5)


def expressions():
    """(title, expression) of all panels."""
    board = json.loads((MONITORING / "grafana.json").read_text())
    return [
        (panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]
    ]


def test_prometheus_finds_and_scrapes_a_cluster(spark, prometheus, clusters, leftovers):
    settings = {"scrape_token": TOKEN, "scrape_directory": str(clusters)}
    with tfos.run(spark, train, nodes=2, **settings) as cluster:
        cluster.train(spark.sparkContext.parallelize(range(2000), 2))
        ours = f'{{cluster="{cluster.cluster_id}"}}'

        def rows():
            found = prometheus(f"tfos_node_rows{ours}")
            return sum(float(sample["value"][1]) for sample in found) == 2000 and found

        labels = [sample["metric"] for sample in wait_for(rows, "all rows in Prometheus")]
        assert {label["task"] for label in labels} == {"0", "1"}
        application = spark.sparkContext.applicationId
        for label in labels:
            assert label["job"] == "worker" and label["node"] and label["host"]
            assert label["application"] == application and label["program"] == "tfos-tests"
        # A rate is between two scrapes.
        wait_for(lambda: prometheus(f"rate(tfos_node_step{ours}[1m])"), "a second scrape")
        empty = set()
        for title, expression in expressions():
            asked = expression.replace("$cluster", cluster.cluster_id)
            if not prometheus(asked.replace("$__rate_interval", "1m")):
                empty.add(title)
        # All processes answer, and the cluster has no GPUs, parameter servers or checkpoints.
        assert empty == {
            "GPU utilization",
            "GPU memory",
            "Seconds without an answer",
            "Seconds without a step",
            "Checkpoints that were not written",
            "Pushes to parameter servers a second",
        }
        assert [path.name for path in clusters.iterdir()] == [f"tfos-{cluster.cluster_id}.json"]
        assert TOKEN not in next(clusters.iterdir()).read_text()
    assert not list(clusters.iterdir())


def test_a_directory_that_cannot_be_written_is_named_before_anything_starts(
    spark, tmp_path, leftovers
):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError, match=r"spark\.tfos\.scrape\.directory=.*can't be written"):
        tfos.run(spark, train, nodes=1, scrape_directory=str(tmp_path / "file" / "below"))


#: What each alert is raised by: series of a node, one value a minute, from the start on.
ALERTS = {
    "TfosNodeMakesNoStep": ("tfos_node_seconds_without_step", "_ _ 100 200 300 360"),
    "TfosNodeDoesNotAnswer": ("tfos_node_seconds_without_answer", "2 12 _ _ _ _"),
    "TfosCheckpointNotWritten": ("tfos_node_checkpoint_failures", "_ _ 1 1 1 1"),
    "TfosLossIsNotFinite": ("tfos_node_loss", "0.5 0.5 0.5 NaN NaN NaN"),
    "TfosNodeIsLost": ("tfos_nodes", "0 0 1 1 1 1 1 1 1 1 1 1 1"),
    "TfosClusterIsDown": ("up", "1 1 0 0 0 0"),
}
#: The same without an alert.
PEACE = {
    "TfosNodeMakesNoStep": ("tfos_node_seconds_without_step", "_ _ 100 200 300 _"),
    "TfosNodeDoesNotAnswer": ("tfos_node_seconds_without_answer", "_ 2 5 9 _ _"),
    "TfosCheckpointNotWritten": ("tfos_node_checkpoint_failures", "0 0 0 0 0 0"),
    "TfosLossIsNotFinite": ("tfos_node_loss", "0.5 NaN 1e30 0.5 0 -1"),
    "TfosNodeIsLost": ("tfos_nodes", "0 1 1 1 1 1 1 1 1 1 0 0 1"),
    "TfosClusterIsDown": ("up", "1 1 1 0 1 1"),
}
#: Labels of single metrics, besides those of all.
MORE_LABELS = {"up": {"job": "tfos"}, "tfos_nodes": {"state": "lost"}}
LABELS = {"task": "1", "program": "digits", "application": "app-1", "host": "a", "instance": "a:1"}


@pytest.mark.parametrize("alert", ALERTS)
@pytest.mark.parametrize("is_raised", [True, False])
def test_alerts_are_raised_by_what_they_are_about(alert, is_raised, tmp_path):
    metric, values = (ALERTS if is_raised else PEACE)[alert]
    labels = LABELS | {"job": "worker"} | MORE_LABELS.get(metric, {})
    series = f"{metric}{{{','.join(f'{key}={json.dumps(labels[key])}' for key in labels)}}}"
    (rule,) = [rule for rule in rules() if rule["alert"] == alert]
    filled = {
        name: re.sub(r"{{ \$labels\.(\w+) }}", lambda match: labels[match[1]], text)
        for name, text in rule["annotations"].items()
    }
    expected = [{"exp_labels": labels | rule["labels"], "exp_annotations": filled}]
    case = {
        "interval": "1m",
        "input_series": [{"series": series, "values": values}],
        "alert_rule_test": [
            {
                "eval_time": f"{len(values.split()) - 1}m",
                "alertname": alert,
                "exp_alerts": expected if is_raised else [],
            }
        ],
    }
    shutil.copy(MONITORING / "alerts.yml", tmp_path)
    cases = tmp_path / "cases.yml"
    cases.write_text(yaml.safe_dump({"rule_files": ["alerts.yml"], "tests": [case]}))
    done = subprocess.run(
        [PROGRAMS / "promtool", "test", "rules", cases], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def expect(tmp_path, expression, given, found):
    """What an expression finds. ``given``: {series: values}, one a minute, as promtool reads them.
    ``found``: {time: {series: value}}"""
    case = {
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in given.items()],
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": time,
                "exp_samples": [
                    {"labels": series, "value": value} for series, value in samples.items()
                ],
            }
            for time, samples in found.items()
        ],
    }
    cases = tmp_path / "cases.yml"
    cases.write_text(yaml.safe_dump({"tests": [case]}))
    done = subprocess.run(
        [PROGRAMS / "promtool", "test", "rules", cases], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_checkpoints_that_failed_long_ago_are_no_alert(tmp_path):
    """Only the last 15 minutes count, and another failure then counts anew, also that of a process
    that has come again."""
    series = 'tfos_node_checkpoint_failures{job="worker",task="0"}'
    (rule,) = [rule for rule in rules() if rule["alert"] == "TfosCheckpointNotWritten"]
    found = {"10m": {series: 1}, "25m": {}, "40m": {series: 2}}
    expect(tmp_path, rule["expr"], {series: "0 1x30 2x30"}, found)
    again = {series: "5x30 0 1 1"}
    expect(tmp_path, f"count({rule['expr']})", again, {"33m": {"{}": 1}, "29m": {}})


@pytest.mark.parametrize("loss", ["NaN", "Inf", "-Inf"])
def test_a_loss_that_is_no_finite_number_is_an_alert(tmp_path, loss):
    (rule,) = [rule for rule in rules() if rule["alert"] == "TfosLossIsNotFinite"]
    series = 'tfos_node_loss{job="worker",task="0"}'
    expect(tmp_path, f"count({rule['expr']})", {series: f"0.5 {loss}"}, {"1m": {"{}": 1}})


def test_the_board_adds_up_no_two_clusters(tmp_path):
    node = 'job="worker",task="0"'
    ours, others = (f'{{cluster="{name}",program="p",{node}}}' for name in "ab")
    asked = dict(expressions())["Share of time that programs wait for rows"]
    asked = asked.replace("$cluster", ".*").replace("$__rate_interval", "2m")
    given = {f"tfos_node_feed_node_wait_seconds{one}": "0+48x5" for one in (ours, others)}
    expect(tmp_path, asked, given, {"5m": {ours: 0.8, others: 0.8}})


def rules():
    return yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]


def test_the_board_and_the_alerts_ask_for_metrics_that_there_are():
    header = (ROOT / "src/control/messages/parts/metric_names.h").read_text()
    of_programs = {"loss", *OF_COLLECTIVES.values()}
    known = set(re.findall(r'KnownMetric\{"(\w+)",', header)) | of_programs
    texts = [text for _, text in expressions()] + [rule["expr"] for rule in rules()]
    asked = {name for text in texts for name in re.findall(r"tfos_node_(\w+)", text)}
    assert asked <= known and len(asked) > 8
    assert {rule["alert"] for rule in rules()} == set(ALERTS)
