"""How soon a cluster's processes have ended once its driver ends.

    python bench/recovery/ending.py [--repeat 10] [--output docs/performance.md]

The driver is a process of its own, with two nodes on a local-cluster. In the middle of feeding, of
training, or of inference, it gets Ctrl-C (SIGINT), stops its Spark session, or is killed (SIGKILL).
A time ends when the driver, its executors and Python workers, the coordinator, the agents, the nodes
and what these have started are gone. The programs of the nodes never end by themselves.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OTHERS = [str(ROOT / "tools"), str(ROOT / "tests" / "python")]
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE), *OTHERS]

import report  # noqa: E402  (beside the feed's benchmarks)

report.make_ready(HERE)
os.environ["PYTHONPATH"] = os.pathsep.join([os.environ["PYTHONPATH"], *OTHERS])

import psutil  # noqa: E402

from support.driver_process import PROGRAMS, Drive, Driver  # noqa: E402

PHASES = {"feed": "feeding", "train": "training", "infer": "inference"}
#: What befalls the driver, and what its action is called for that.
ENDS = {"Ctrl-C": "{}", "`spark.stop()`": "{} and stop", "killed": "{}"}
#: A bound for a run that goes wrong, in seconds.
LONGEST = 300


def seconds_until_gone(phase, end):
    """One driver from its start to its end; seconds from the latter until all are gone."""
    with tempfile.TemporaryDirectory() as name:
        driver = Driver(pathlib.Path(name), PROGRAMS[phase], ENDS[end].format(phase))
        try:
            drive = Drive(pathlib.Path(name), driver)
            drive.reach(phase)
            everyone = [process for some in drive.members.values() for process in some]
            begun = time.monotonic()
            if end == "killed":
                drive.kill("driver")
            elif end == "Ctrl-C":
                drive.process.send_signal(signal.SIGINT)
            else:
                drive.let_stop()
            drive.process.wait(LONGEST)  # psutil would take it for one that runs until then.
            _, left = psutil.wait_procs(everyone, timeout=LONGEST)
            seconds = time.monotonic() - begun
        finally:
            driver.close()
    if left:
        raise SystemExit(f"{left} still ran {LONGEST} s after the driver's end: {end}, {phase}")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--output", type=pathlib.Path, help="a page whose part is replaced")
    options = parser.parse_args()
    found = {(end, phase): [] for end in ENDS for phase in PHASES}
    for number in range(options.repeat):
        for (end, phase), times in found.items():
            times.append(seconds_until_gone(phase, end))
            done = f"round {number + 1} of {options.repeat}"
            print(f"{done}: {end}, {PHASES[phase]}: {times[-1]:.2f} s", flush=True)

    def cell(end, phase):
        times = found[end, phase]
        return f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"

    report.publish(
        "ending.py",
        options.repeat,
        "Two nodes on a local-cluster; seconds until all processes are gone, medians with minimum "
        "and maximum.",
        [
            f"| driver | {' | '.join(PHASES.values())} |",
            "|---|" + "---|" * len(PHASES),
            *(f"| {end} | {' | '.join(cell(end, phase) for phase in PHASES)} |" for end in ENDS),
        ],
        options.output,
        folder="recovery",
    )


if __name__ == "__main__":
    main()
