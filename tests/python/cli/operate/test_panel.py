"""The page of a real cluster shows what its nodes write, and where they hang."""

from __future__ import annotations

import pytest

from support.operating import pid_of, start, wait_for_files
from support.operating import tfos as run_tfos
from support.page.browsers import browser, complaints, text_of, wait_for_looks
from support.page.shown import CLICK
from support.programs import operate
from support.waiting import BOUND_SECONDS, wait_for
from tfos.errors import ClusterStoppedError

pytestmark = pytest.mark.timeout(3 * BOUND_SECONDS)


def stacks_of(driver, node_id, wanted):
    """What the panel shows of a node that was selected."""
    driver.execute_script(CLICK, f"tr[data-node='{node_id}']")
    title = f"worker:{node_id}"
    wait_for(lambda: title in text_of(driver, "#panel-title"), f"the panel of {title}")
    driver.execute_script(CLICK, "#panel-stack")
    wait_for(
        lambda: wanted in text_of(driver, "#stack"),
        lambda: f"{wanted}: {text_of(driver, '#panel')} {complaints(driver)}",
    )
    return text_of(driver, "#stack")


@pytest.mark.long
def test_a_print_and_the_stacks_of_nodes_that_hang(standalone_spark, tmp_path, leftovers):
    with pytest.raises(ClusterStoppedError):
        with start(standalone_spark, operate.print_and_hang, tmp_path) as cluster:
            wait_for_files(tmp_path, "hangs")
            with browser() as driver:
                # The tests' browser reaches this host alone.
                key = cluster.page_url.partition("#")[2]
                driver.get(f"http://127.0.0.1:{cluster.coordinator_address[1]}/#{key}")
                wait_for_looks(driver)
                waits = stacks_of(driver, 0, "in wait_in_python")
                wait_for(
                    lambda: "worker:0 is about to hang" in text_of(driver, "#output"),
                    lambda: f"its print: {text_of(driver, '#panel')}",
                )
                pid = pid_of(cluster, "worker:0")
                assert f"thread {pid} 'MainThread', the latest call last:" in waits
                assert f"Threads of process {pid}, as the kernel sees them:" in waits

                # Nobody who may only read makes tfos look at it without Python's lock.
                hangs = stacks_of(driver, 1, "Python's stacks are left out")
                assert "hang_natively" not in hangs and "run: tfos stack NODE" in hangs
                assert f"{pid_of(cluster, 'worker:1')}  " in hangs.partition("kernel sees them")[2]
                wait_for(
                    lambda: "worker:1 is about to hang" in text_of(driver, "#output"), "its print"
                )
                whole = run_tfos("stack", "worker:1")
                assert "in hang_natively" in whole.stdout, whole.stderr
            assert run_tfos("stop").returncode == 0
            cluster.wait(BOUND_SECONDS)
