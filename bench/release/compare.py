"""A wheel of `make dist` against tfos as this machine's compiler and libraries build it, in one run.

    python bench/release/compare.py dist/tfos-...whl [--rounds 5] [--output docs/performance.md]

The other is the tfos that the Python of the command has (`make build`). A round runs each benchmark
with the one and then the other, the order changing from round to round, so a machine that grows
busier slows both down. Each number is the median of the rounds, and of a round's ratios the last one.

The benchmarks are bench/feed/channels.py, and of bench/collective what programs call: the ops of
TensorFlow, in two processes.
"""

import argparse
import json
import os
import pathlib
import secrets
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "collective"), str(HERE.parent / "feed")]

import report  # noqa: E402  (beside the feed's benchmarks)

SIZES = {4 << 10: "4 KiB", 1 << 20: "1 MiB", 64 << 20: "64 MiB"}
TRANSPORTS = ("shared-memory", "tcp", "tls")


def environment(packages):
    """In which `packages`, a folder, come before those of this Python; None: just those."""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**plain, "TF_CPP_MIN_LOG_LEVEL": "2"} | (
        {"PYTHONPATH": str(packages)} if packages else {}
    )


def channels(packages, folder):
    """{what: bytes a second}"""
    samples = folder / "samples"
    command = [sys.executable, HERE.parent / "feed" / "channels.py", "--repeat", "3"]
    subprocess.run(
        [*command, "--samples", samples],
        check=True,
        env=environment(packages),
        stdout=subprocess.DEVNULL,
    )
    lines = map(json.loads, samples.read_text().splitlines())
    return {f"feed: {one['what']}": one["rate"] for one in lines}


def all_reduce(packages, transport):
    """{what: bytes a second}"""
    import compare

    ports = ",".join(map(str, compare.free_ports(2)))
    token = secrets.token_hex(32)
    program = HERE.parent / "collective" / "tfos_ops.py"
    sizes = ",".join(map(str, SIZES))
    found = compare.lines_of(
        [[sys.executable, program, sizes, "5", rank, token, transport, ports] for rank in range(2)],
        [environment(packages)] * 2,
    )
    return {
        f"all-reduce, {transport.replace('-', ' ')}, {SIZES[one['bytes']]}": one["bytes"]
        / statistics.median(one["seconds"])
        for one in found
    }


def measure(packages, folder):
    found = channels(packages, folder)
    for transport in TRANSPORTS:
        found |= all_reduce(packages, transport)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        packages = folder / "release"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--target", packages, options.wheel], check=True)
        pairs = {}
        for number in range(options.rounds):
            sides = [packages, None]
            found = {side: measure(side, folder) for side in sides[:: -1 if number % 2 else 1]}
            for what, rate in found[packages].items():
                pairs.setdefault(what, []).append((rate, found[None][what]))
            print(
                f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", flush=True
            )
    lines = ["| | wheel of `make dist` | built here | ratio |", "|---|---|---|---|"]
    for what, rates in pairs.items():
        ratios = [ours / other for ours, other in rates]
        wheel, built = (statistics.median(side) / 1e9 for side in zip(*rates))
        lines.append(
            f"| {what} | {wheel:.3g} GB/s | {built:.3g} GB/s | **{statistics.median(ratios):.2f}** "
            f"({min(ratios):.2f} to {max(ratios):.2f}) |"
        )
    report.publish(
        "compare.py",
        options.rounds,
        "Medians; ratios of the rates with minimum and maximum.",
        lines,
        options.output,
        folder="release",
        option="rounds",
    )


if __name__ == "__main__":
    main()
