"""A short soak: the long one is the same program with more minutes."""

import subprocess
import sys

import pytest

from support.places import ROOT

pytestmark = pytest.mark.long

SOAK = ROOT / "bench" / "feed" / "soak.py"
#: It feeds for half a minute, and for nine epochs however long they take.
BOUND_SECONDS = 600


@pytest.mark.spark
@pytest.mark.timeout(BOUND_SECONDS + 60)
def test_no_process_of_a_cluster_keeps_growing():
    done = subprocess.run(
        [sys.executable, str(SOAK), "--minutes", "0.5"],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "coordinator" in done.stdout and "node 1" in done.stdout
