"""All-reduce of float32 on this machine: tfos over each transport against Gloo, bare sockets and TensorFlow's RING.

Runs build/bench/bench/collective/all_reduce (cmake --preset bench && cmake --build --preset bench
--target all_reduce; tools/install_packages.sh bench for Gloo) and two processes each of
tensorflow_ring.py and tfos_ops.py, and writes medians and ratios as a Markdown table.

    python bench/collective/compare.py [--members 2 4] [--rounds 5] [--samples FILE]
        [--output docs/performance.md]

TensorFlow is compared with tfos's op, which a program calls as it calls TensorFlow's; Gloo and the
bound with what is below the op.

Aims over TCP: a tenth of TensorFlow's time at 4 KiB and a quarter from 1 MiB on, Gloo's time, and 0.8
of the bound. With shared memory: 30 us, and 1.5 times the rate of TCP from 1 MiB on.
"""

import argparse
import json
import os
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "feed"))

import report  # noqa: E402  (beside the feed's benchmarks)

DRIVER = HERE.parents[1] / "build/bench/bench/collective/all_reduce"
TENSORFLOW_SIZES = [4 << 10, 1 << 20, 16 << 20, 64 << 20]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=int, default=256 << 20, help="bytes of the largest tensor")
    parser.add_argument("--without-tensorflow", action="store_true")
    parser.add_argument(
        "--samples", type=pathlib.Path, help="a file for every sample, as JSON lines"
    )
    parser.add_argument(
        "--output", type=pathlib.Path, help="a page whose part of this benchmark is replaced"
    )
    arguments = parser.parse_args()
    found = []
    for members in arguments.members:
        found += lines_of(
            [
                [
                    DRIVER,
                    "--members",
                    str(members),
                    "--rounds",
                    str(arguments.rounds),
                    "--to",
                    str(arguments.most),
                ]
            ],
            prefix="",
        )
    if not arguments.without_tensorflow:
        found += tensorflow(arguments.rounds)
        found += tfos_ops(arguments.rounds, "tcp") + tfos_ops(arguments.rounds, "shared-memory")
    if arguments.samples:
        arguments.samples.write_text("".join(json.dumps(one) + "\n" for one in found))
    report.publish(
        "compare.py",
        arguments.rounds,
        "Processes of one host; medians of whole all-reduces, "
        "ratios of the rival's time to ours, checked before they are timed.",
        list(table(found)),
        arguments.output,
        folder="collective",
        option="rounds",
    )


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def tensorflow(rounds):
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    sizes = ",".join(map(str, TENSORFLOW_SIZES))
    environments = [
        {
            "TF_CONFIG": json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
            )
        }
        for rank in range(2)
    ]
    command = [sys.executable, HERE / "tensorflow_ring.py", sizes, str(rounds)]
    return lines_of([command] * 2, environments)


def tfos_ops(rounds, transport):
    ports = ",".join(map(str, free_ports(2)))
    sizes = ",".join(map(str, TENSORFLOW_SIZES))
    token = secrets.token_hex(32)
    return lines_of(
        [
            [
                sys.executable,
                HERE / "tfos_ops.py",
                sizes,
                str(rounds),
                str(rank),
                token,
                transport,
                ports,
            ]
            for rank in range(2)
        ]
    )


def lines_of(commands, environments=None, prefix="RESULT "):
    """What processes that run together report."""
    processes = [
        subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.PIPE if prefix else None,
            env={
                **os.environ,
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "CUDA_VISIBLE_DEVICES": "",
                **(environments[rank] if environments else {}),
            },
        )
        for rank, command in enumerate(commands)
    ]
    outputs = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, outputs):
        if process.returncode != 0:
            sys.exit(f"{process.args} failed:\n{(errors or '')[-4000:]}")
    return [
        json.loads(line.removeprefix(prefix))
        for output, _ in outputs
        for line in output.splitlines()
        if line.startswith(prefix) and "{" in line
    ]


def bytes_text(count):
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def time_text(seconds):
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


def table(found):
    medians, cpu_medians = {}, {}
    for one in found:
        case = (one["members"], one["bytes"])
        medians.setdefault(case, {})[one["contender"]] = statistics.median(one["seconds"])
        if "cpu_seconds" in one:
            cpu_medians.setdefault(case, {})[one["contender"]] = statistics.median(
                one["cpu_seconds"]
            )
    columns = [
        "tcp",
        "tls",
        "shared memory",
        "ucx, tcp",
        "ucx, shared memory",
        "gloo",
        "bound",
        "TensorFlow",
        "op, tcp",
        "op, shared memory",
    ]
    yield (
        "| processes | bytes | "
        + " | ".join(columns)
        + " | op against TensorFlow | tcp against Gloo | against the bound | shared memory against tcp "
        "| tls against tcp | its CPU | ucx against tcp | its CPU |"
    )
    yield "|" + "---|" * (len(columns) + 10)
    for (members, size), seconds in sorted(medians.items()):
        cpu_seconds = cpu_medians.get((members, size), {})
        cells = []
        for column in columns:
            if column not in seconds:
                cells.append("")
                continue
            text = time_text(seconds[column])
            if size >= 1 << 20:
                text += f", {size / seconds[column] / 1e9:.2f} GB/s"
            cells.append(text)

        def ratio(slow, fast, of=seconds):
            return f"{of[slow] / of[fast]:.2f}x" if {slow, fast} <= set(of) and of[fast] > 0 else ""

        cells += [
            ratio("TensorFlow", "op, tcp"),
            ratio("gloo", "tcp"),
            ratio("bound", "tcp"),
            ratio("tcp", "shared memory"),
            ratio("tcp", "tls"),
            ratio("tcp", "tls", cpu_seconds),
            ratio("tcp", "ucx, tcp"),
            ratio("tcp", "ucx, tcp", cpu_seconds),
        ]
        yield f"| {members} | {bytes_text(size)} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
