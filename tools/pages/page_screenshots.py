"""Writes the pictures of docs/page.md, docs/images/page_*.png, with simulated nodes and a browser.

.venv/bin/python tools/pages/page_screenshots.py [--nodes 2 20 1000] [--output FOLDER]
"""

from __future__ import annotations

import argparse
import io
import math
import pathlib
import random
import sys
import threading
import time

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.page.browsers import browser, wait_for_looks  # noqa: E402
from support.page.simulated_cluster import SimulatedCluster  # noqa: E402

#: (name, width, height, dark)
VIEWS = (("light", 1280, 1250, False), ("dark", 1280, 1250, True), ("phone", 390, 1100, False))
COLORS = 128  # of a picture
#: Between two heartbeats of a node.
BEAT_SECONDS = 0.2


def numbers(node_id: int, seconds: float, chance: random.Random) -> dict[str, float]:
    """What a node reports after so many seconds. The second node is slow."""
    slow = 0.6 if node_id == 1 else 1.0
    done = seconds * slow
    return {
        "step": int(12 * done),
        "loss": round(2.3 * math.exp(-done / 15) + 0.08 * chance.random() + 0.05, 4),
        "accuracy": round(0.97 - 0.9 * math.exp(-done / 12) - 0.03 * chance.random(), 4),
        "rows": int(1536 * done),
        "items_delivered": int(1536 * done) + 500,
        "items_unread": 500,
        "feed_bytes": int(1.2e6 * done),
        "feed_queued_bytes": int(2e6 + 1e6 * chance.random()),
        "feed_node_wait_seconds": seconds * (0.05 if slow < 1 else 0.4),
        "feed_feeder_wait_seconds": seconds * (0.3 if slow < 1 else 0.02),
        "cpu_seconds": seconds * 0.8 + 0.1 * chance.random(),
        "rss_bytes": int(9e8 + 1e7 * chance.random() + 2e5 * node_id),
    }


def picture(nodes: int, seconds: float, output: pathlib.Path) -> None:
    chance = random.Random(1)
    with SimulatedCluster(nodes, heartbeat_ms=200 if nodes < 100 else 1000) as cluster:
        for node_id in range(nodes):
            cluster.run(node_id)
        cluster.coordinator.send(
            "activity",
            doing="feeding",
            items_read=int(1400 * nodes * seconds),
            items_moved=0,
            unit="rows",
            cut_short=False,
        )
        begun = time.monotonic()
        enough = threading.Event()

        def beat() -> None:
            while not enough.wait(BEAT_SECONDS):
                now = time.monotonic() - begun
                for node_id in range(nodes):
                    cluster.report(node_id, **numbers(node_id, now, chance))

        beating = threading.Thread(target=beat)
        beating.start()
        enough.wait(seconds)
        cluster.coordinator.send("end_epoch", queue="input", epoch=0)
        for name, width, height, dark in VIEWS:
            with browser(width, height, dark=dark) as driver:
                driver.get(cluster.link)
                wait_for_looks(driver, 2)
                if nodes > 8:
                    for node_id in (1, 5):
                        driver.execute_script(
                            f"document.querySelector('tr[data-node=\"{node_id}\"]').click()"
                        )
                    wait_for_looks(driver, 2)
                    driver.execute_script(
                        "document.getElementById('details').hidden = true; scrollTo(0, 0)"
                    )
                shot = Image.open(io.BytesIO(driver.get_screenshot_as_png()))
            path = output / f"page_{nodes}_{name}.png"
            shot.convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE).save(
                path, optimize=True
            )
            print(f"{path}: {path.stat().st_size:,} bytes")
        enough.set()
        beating.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 20, 1000])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "images")
    parsed = parser.parse_args()
    for nodes in parsed.nodes:
        picture(nodes, parsed.seconds, parsed.output)


if __name__ == "__main__":
    main()
