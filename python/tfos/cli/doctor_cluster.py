"""``tfos doctor --cluster MASTER``: the checks of the hosts of a Spark cluster, as one table.

A small barrier job holds every task slot at once, so that no host with an executor is left out. It
runs ``tfos doctor`` in one task of each host, with the Python that nodes would have there. On a
standalone cluster each host has an executor. YARN and Kubernetes start as many as were asked for,
so there it says how many that were. Exit codes: 0, 1 if a check failed on any host or the job did,
2 if the command line is wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfos._version import __version__
from tfos.cli.checks import FAIL, OK, WARN, Check
from tfos.cli.doctor import TFOS, check_rpc
from tfos.errors import TfosError
from tfos.spark import slots
from tfos.spark.installation import python_of_executors, spark_defaults

_POLL_SECONDS = 0.2
#: How long an executor may take to register after the one before it, and the first one.
_LAST_EXECUTOR_SECONDS = 5.0
_FIRST_EXECUTOR_SECONDS = 120.0
#: The time for one host; a cold Python on a slow disk takes seconds.
_CHECK_SECONDS = 120

_EXECUTORS = "spark.executor.instances"
#: How many Spark asks YARN and Kubernetes for where nothing is set.
_DEFAULT_EXECUTORS = "2"

_SHOWN = {OK: "ok", WARN: "WARN", FAIL: "FAIL"}
_HEAD = ("", "check", "hosts", "found")


@dataclasses.dataclass(frozen=True)
class Line:
    """What a check has found, and on which hosts."""

    check: Check
    hosts: list[str]


def lines_of(reports: Mapping[str, Sequence[Check]]) -> list[Line]:
    """The checks of all hosts, those with the same result as one, in the order of the reports."""
    order: dict[str, int] = {}
    hosts_of: dict[Check, list[str]] = {}
    for host in sorted(reports):
        for check in reports[host]:
            order.setdefault(check.what, len(order))
            hosts_of.setdefault(check, []).append(host)
    lines = [Line(check, hosts) for check, hosts in hosts_of.items()]
    return sorted(lines, key=lambda line: order[line.check.what])


def with_application(
    reports: Mapping[str, Sequence[Check]], application: Check
) -> dict[str, list[Check]]:
    """The reports with what is known of the running application, in the place of what each host
    would do by default."""
    return {
        host: [application if check.what == application.what else check for check in checks]
        for host, checks in reports.items()
    }


def with_one_version(
    reports: Mapping[str, Sequence[Check]], version: str
) -> dict[str, list[Check]]:
    """The reports, in which hosts fail whose tfos has another version than the driver's."""
    return {
        host: [_same_version(check, version) for check in checks]
        for host, checks in reports.items()
    }


def _same_version(check: Check, version: str) -> Check:
    if check.what != TFOS or check.level != OK or check.found == version:
        return check
    return Check(
        FAIL,
        TFOS,
        check.found,
        f"the Python that runs this has {version}: install the same version of tfos everywhere",
    )


def table_of(lines: Sequence[Line], hosts: int) -> str:
    """Aligned text; the last column has the advice, too."""
    rows = [_HEAD]
    for line in lines:
        check = line.check
        where = f"all {hosts}" if len(line.hosts) == hosts else ", ".join(line.hosts)
        found = f"{check.found}; {check.advice}" if check.advice else check.found
        rows.append((_SHOWN[check.level], check.what, where, found))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    return "\n".join(_line_of(row, widths) for row in rows)


def _line_of(row: Sequence[str], widths: Sequence[int]) -> str:
    *cells, last = row
    aligned = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join([*aligned, last]).rstrip()


def host_check(check_seconds: int) -> Callable[[Any], Any]:
    """What each task runs. A function of its own, so that Spark pickles it whole: a host that lacks
    tfos can say so."""

    def check(_rows: Any) -> Any:
        import importlib.util
        import json
        import os
        import socket
        import subprocess
        import sys

        from pyspark import BarrierTaskContext

        def own_host() -> str:
            """The host as Spark calls it: its executors have that on their command lines."""
            pid = os.getpid()
            while pid > 0:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    words = line.read().split(b"\0")
                if b"--hostname" in words:
                    return os.fsdecode(words[words.index(b"--hostname") + 1])
                with open(f"/proc/{pid}/stat") as status:
                    pid = int(status.read().rpartition(")")[2].split()[1])
            return socket.gethostname()

        context = BarrierTaskContext.get()
        host = own_host()
        hosts = context.allGather(host)  # all slots are held until every task has begun
        if hosts.index(host) != context.partitionId():
            return

        def failed(found: str, advice: str) -> Any:
            return host, [
                {"level": "fail", "what": "Python packages", "found": found, "advice": advice}
            ]

        install = f"install tfos for {sys.executable} on this host"
        spec = importlib.util.find_spec("tfos")
        if spec is None or not spec.origin:
            yield failed(f"{sys.executable} has no tfos", install)
            return
        program = os.path.join(os.path.dirname(spec.origin), "bin", "tfos")
        try:
            done = subprocess.run(
                [program, "doctor", "--json"],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
                capture_output=True,
                text=True,
                timeout=check_seconds,
            )
            yield host, json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            yield failed(f"{program}: {error}", install)

    return check


def check_cluster(spark_context: Any) -> dict[str, list[Check]]:
    """The checks of each host by its name, as Spark calls it.

    Raises :class:`tfos.errors.TfosError` if no executor registers, or if the job fails.
    """
    while True:
        count = _settled_slots(spark_context)
        tasks = spark_context.parallelize(range(count), count).barrier()
        try:
            reports = tasks.mapPartitions(host_check(_CHECK_SECONDS)).collect()
        except Exception as error:
            raise TfosError(f"the job that checks the hosts failed: {_cause(error)}") from error
        # On a slow cluster executors may have registered meanwhile: on hosts that had no task.
        if slots.available_slots(spark_context) <= count:
            return {host: [Check(**check) for check in checks] for host, checks in reports}


def coverage(spark_context: Any, hosts: int) -> str:
    """What tells that there may be more than the ``hosts`` that were checked; "" on clusters where
    each host has an executor."""
    if not spark_context.master.startswith(("yarn", "k8s://")):
        return ""
    asked = spark_context.getConf().get(_EXECUTORS, _DEFAULT_EXECUTORS)
    return (
        f"Spark was asked for {asked} executor(s), and tasks ran on {hosts} host(s): only these "
        f"were checked, and the cluster may have others. --conf {_EXECUTORS}=N checks more"
    )


def _settled_slots(spark_context: Any) -> int:
    """How many task slots there are, once no more executors register."""
    before = 0
    deadline = time.monotonic() + _FIRST_EXECUTOR_SECONDS
    while time.monotonic() < deadline:
        now = slots.available_slots(spark_context)
        if now != before:
            before = now
            deadline = time.monotonic() + _LAST_EXECUTOR_SECONDS
        time.sleep(_POLL_SECONDS)
    if before == 0:
        raise TfosError(
            f"no executor of Spark ({spark_context.master}) has registered within "
            f"{_FIRST_EXECUTOR_SECONDS:g} s: its resource manager may have no free cores or "
            "memory, or its hosts can't reach this driver"
        )
    return before


def _cause(error: Exception) -> str:
    """The first lines of Spark's report that say something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("An error occurred while", "at "))]
    return " ".join(said[:3])


def _session(master: str, settings: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # All that there is, at once.
        "spark.dynamicAllocation.enabled": "false",
    }
    # The Python of `tfos submit --no-env`. Without spark-submit, Spark looks at the variable alone.
    _, conf = spark_defaults(os.environ)
    python = python_of_executors({**conf, **settings}, os.environ)
    os.environ["PYSPARK_PYTHON"] = python or sys.executable
    builder = SparkSession.builder.master(master).appName("tfos doctor")
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tfos doctor --cluster",
        description="checks the hosts of a Spark cluster: all of a standalone cluster; on YARN and "
        f"Kubernetes those of the executors that Spark is asked for ({_EXECUTORS})",
    )
    parser.add_argument("master", help="spark://HOST:PORT, yarn, k8s://URL, local-cluster[N,C,M]")
    parser.add_argument(
        "--conf", type=_setting, action="append", default=[], metavar="KEY=VALUE", help="of Spark"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        spark = _session(options.master, dict(options.conf))
        try:
            spark.sparkContext.setLogLevel("ERROR")
            context = spark.sparkContext
            rpc = check_rpc(context.getConf().get, context.master, context.version)
            reports = with_application(check_cluster(context), rpc)
            reports = with_one_version(reports, __version__)
            checked = coverage(context, len(reports))
        finally:
            spark.stop()
    except Exception as error:  # the boundary: Spark's own errors say what is wrong, too
        print(f"tfos doctor: {error}", file=sys.stderr)
        return 1
    lines = lines_of(reports)
    if options.json:
        shown = [{**dataclasses.asdict(line.check), "hosts": line.hosts} for line in lines]
        print(json.dumps(shown, indent=2))
    else:
        print(table_of(lines, len(reports)))
    if checked:
        # Beside the table, so that JSON stays JSON.
        print(f"tfos doctor: {checked}", file=sys.stderr)
    return int(any(line.check.level == FAIL for line in lines))


if __name__ == "__main__":
    sys.exit(main())
