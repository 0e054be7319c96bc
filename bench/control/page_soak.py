"""Keeps a cluster's web page open for hours, and fails if coordinator or browser keep growing.

    python bench/control/page_soak.py [--minutes 120] [--nodes 100]

The coordinator and the browser are real. Agents are simulated, and send heartbeats with the numbers
of a training once a second, as agents do. The page shows a node's output, of which there is more
with each heartbeat, in the panel beside the others. The first tenth of the time is without a browser, so the
coordinator's CPU in both parts says what a page costs that somebody looks at. The first third with
the browser is warm-up; what each takes at its end is compared with the last third's smallest sample,
which may be a tenth and 16 MiB more. The browser's garbage is collected before each sample.
"""

import argparse
import json
import pathlib
import random
import sys
import threading
import time
from collections.abc import Callable

import psutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tools" / "pages")]

from page_screenshots import numbers  # noqa: E402
from support.page.browsers import browser, complaints, looks, text_of, wait_for_looks  # noqa: E402
from support.page.shown import CLICK  # noqa: E402
from support.page.simulated_cluster import SimulatedCluster  # noqa: E402
from support.page.talking_node import TalkingNode  # noqa: E402

HEARTBEAT_SECONDS = 1.0
TALKING_NODE = 1
_SHARE, _BYTES = 1.1, 16 << 20


def coordinator_process() -> psutil.Process:
    return next(child for child in psutil.Process().children() if "coordinator" in child.cmdline())


def private_bytes(process: psutil.Process) -> int:
    """Resident memory that is not shared."""
    fields = dict(
        line.partition(":")[::2]
        for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    )
    return int(fields["RssAnon"].split()[0]) * 1024


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def browser_bytes(driver) -> tuple[int, int, int]:
    """Private memory of all the browser's processes, the page's JavaScript heap, its DOM nodes."""
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    values = {metric["name"]: metric["value"] for metric in metrics}
    server = psutil.Process(driver.service.process.pid)
    private = 0
    for process in server.children(recursive=True):
        try:
            private += private_bytes(process)
        except (psutil.NoSuchProcess, FileNotFoundError, KeyError):
            continue  # It has ended since it was listed.
    return private, int(values["JSHeapUsedSize"]), int(values["Nodes"])


class Beats:
    """Heartbeats of all nodes once a second, until the block ends, and a line of output of one of
    them. A thread of its own sends them."""

    def __init__(self, cluster: SimulatedCluster, nodes: int, talking: TalkingNode):
        self._cluster, self._nodes, self._talking = cluster, nodes, talking
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._beat)

    def _beat(self) -> None:
        chance, begun = random.Random(1), time.monotonic()
        due = begun
        while not self._enough.wait(max(0.0, due - time.monotonic())):
            for node_id in range(self._nodes):
                self._cluster.report(node_id, **numbers(node_id, due - begun, chance))
            self._talking.write(f"{due - begun:.0f} s: all is well with this node\n")
            due += HEARTBEAT_SECONDS

    def __enter__(self) -> "Beats":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._enough.set()
        self._thread.join()


def sampled(minutes: float, every_seconds: float, sample: Callable[[], dict]) -> list[dict]:
    """Samples from the beginning to the end of the time, each printed as it is taken."""
    samples, pause = [], threading.Event()
    end = time.monotonic() + 60 * minutes
    while True:
        samples.append(sample())
        print(json.dumps(samples[-1]), flush=True)
        left = end - time.monotonic()
        if left <= 0:
            return samples
        pause.wait(min(every_seconds, left))


def growth(samples: list[dict], names: list[str]) -> list[str]:
    """What keeps growing, in words. Prints what it compares."""
    found = []
    third = len(samples) // 3
    for name in names:
        sizes = [sample[name] for sample in samples]
        before, after = sizes[third], min(sizes[-max(third, 1) :])
        print(f"{name}: {before / 1e6:,.1f} MB after warming up, {after / 1e6:,.1f} MB at the end")
        if after > before * _SHARE + _BYTES:
            found.append(f"{name} grew from {before:,} to {after:,}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--every-seconds", type=float, default=60, help="between two samples")
    options = parser.parse_args()
    with (
        SimulatedCluster(options.nodes, heartbeat_ms=int(1000 * HEARTBEAT_SECONDS)) as cluster,
        TalkingNode(cluster, TALKING_NODE) as talking,
    ):
        for node_id in range(options.nodes):
            cluster.run(node_id)
        process = coordinator_process()
        begun = time.monotonic()

        def of_coordinator() -> dict:
            return {
                "minute": round((time.monotonic() - begun) / 60, 3),
                "coordinator": private_bytes(process),
                "coordinator_cpu": cpu_seconds(process),
            }

        with Beats(cluster, options.nodes, talking):
            alone = sampled(options.minutes / 10, options.every_seconds, of_coordinator)
            with browser() as driver:
                driver.get(cluster.link)
                wait_for_looks(driver, 2)
                driver.execute_script(CLICK, f"tr[data-node='{TALKING_NODE}']")
                talking.await_question("output")
                driver.execute_cdp_cmd("Performance.enable", {})

                def of_both() -> dict:
                    private, heap, nodes = browser_bytes(driver)
                    return of_coordinator() | {
                        "browser": private,
                        "page_heap": heap,
                        "page_dom_nodes": nodes,
                        "page_looks": looks(driver),
                    }

                watched = sampled(9 * options.minutes / 10, options.every_seconds, of_both)
                wait_for_looks(driver)  # It still shows new data.
                lines = len(text_of(driver, "#output").splitlines())
                said = complaints(driver)
        for node_id in range(options.nodes):
            cluster.end(node_id)

    def share(samples: list[dict]) -> float:
        first, last = samples[0], samples[-1]
        minutes = last["minute"] - first["minute"]
        return 100 * (last["coordinator_cpu"] - first["coordinator_cpu"]) / (60 * minutes)

    print(f"{options.nodes} nodes, a heartbeat a second from each, {options.minutes:g} minutes")
    print(f"coordinator: {share(alone):.2f} % of a core, {share(watched):.2f} % with a page open")
    print(f"the panel of a node shows {lines:,} lines of its output")
    print(
        f"DOM nodes: {watched[0]['page_dom_nodes']:,} then, {watched[-1]['page_dom_nodes']:,} now"
    )
    found = growth(watched, ["coordinator", "browser", "page_heap"])
    sys.exit("; ".join(found + said) or 0)


if __name__ == "__main__":
    main()
