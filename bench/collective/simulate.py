"""How all-reduce grows from 2 to 1,024 nodes: a simulation with constants measured on this machine.

    python bench/collective/compare.py --members 2 4 8 --without-tensorflow --samples samples.jsonl
    python bench/collective/simulate.py samples.jsonl --plot scaling.png

Each step of a member is simulated. It begins when the member has done the one before, occupies its
processor for the message's bytes, arrives after the latency, and is received when the receiver is there.
Two numbers are fitted for each transport and size, to 2 processes: what a step costs at 4 KiB
(latency), and what a byte costs beyond that (bandwidth: less where tensors fit into caches). With more members on a host than processors these take turns.
What follows for 4 and 8 processes on this machine is compared with what was measured. The plot is for
nodes with a processor each: ring and halving/doubling with a host for each node, hierarchical with
eight nodes a host that share memory, one of which speaks for it over TCP.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics

import numpy as np

NODES_ON_A_HOST = 8
SIZES = [4 << 10, 1 << 20, 64 << 20]


@dataclasses.dataclass
class Transport:
    latency: float  # seconds of a step, however small
    per_byte: float  # seconds of processor for a byte that a member sends, receives and adds

    def step(self, ready, partners, count, crowding):
        """When members are done that send to and receive `count` bytes from `partners`."""
        busy = count * self.per_byte * crowding
        sent = ready + busy + self.latency * crowding
        return np.maximum(sent, sent[partners])


def ring(transport, members, size, crowding=1.0):
    ready = np.zeros(members)
    left = (np.arange(members) - 1) % members
    for _ in range(2 * (members - 1)):
        ready = transport.step(ready, left, size / members, crowding)
    return ready.max()


def doubling(transport, members, size, crowding=1.0):
    """All of it in each of log2(n) steps; members are a power of two."""
    ready = np.zeros(members)
    distance = 1
    while distance < members:
        ready = transport.step(ready, np.arange(members) ^ distance, size, crowding)
        distance *= 2
    return ready.max()


def halving(transport, members, size, crowding=1.0):
    """Recursive halving and then doubling; members are a power of two."""
    ready = np.zeros(members)
    distances = [1 << bit for bit in range(members.bit_length() - 1)]
    for distance in distances[::-1] + distances:
        ready = transport.step(
            ready, np.arange(members) ^ distance, size * distance / members, crowding
        )
    return ready.max()


def over_connections(transport, members, size, crowding=1.0):
    """What tfos takes for the size."""
    if members == 1:
        return 0.0
    if size <= 32 << 10:
        return doubling(transport, members, size, crowding)
    power_of_two = members & (members - 1) == 0
    return (halving if power_of_two and size <= 2 << 20 else ring)(
        transport, members, size, crowding
    )


def on_host(shared, members, size, crowding=1.0):
    """Everybody fills, adds up its part and takes the others': as many bytes as a ring moves, in
    two waits for each other; of little, one."""
    waits = 1 if size <= 16 << 10 else 2
    return (
        waits * shared.latency + 2 * (members - 1) / members * size * shared.per_byte
    ) * crowding


def hierarchical(tcp, shared, members, size):
    here = min(members, NODES_ON_A_HOST)
    if here == members:
        return on_host(shared, here, size)
    # Back again through shared memory: everybody reads all of it.
    return (
        on_host(shared, here, size)
        + over_connections(tcp, members // here, size)
        + shared.latency
        + size * shared.per_byte
    )


def fit(measured, contender, size):
    latency = measured[2, min(SIZES), contender]
    if size == min(SIZES):
        return Transport(latency, 0.0)
    # Two processes move each byte once in each direction, whatever the algorithm, in two steps.
    return Transport(latency, (measured[2, size, contender] - 2 * latency) / size)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    arguments = parser.parse_args()
    measured = {}
    for line in arguments.samples.read_text().splitlines():
        one = json.loads(line)
        measured[one["members"], one["bytes"], one["contender"]] = statistics.median(one["seconds"])
    fitted = {
        (name, size): fit(measured, name, size)
        for name in ("tcp", "shared memory")
        for size in SIZES
    }
    for (name, size), transport in fitted.items():
        if transport.per_byte:
            print(
                f"{name}, {size >> 20} MiB: {transport.latency * 1e6:.1f} us a step, "
                f"{1e-9 / transport.per_byte:.2f} GB/s"
            )
    print(
        "\n| processes here | bytes | TCP measured | simulated | shared memory measured | simulated |"
    )
    print("|---|---|---|---|---|---|")
    processors = len(os.sched_getaffinity(0))
    for members in (2, 4, 8):
        crowding = max(1.0, members / processors) / max(1.0, 2 / processors)
        for size in SIZES:
            if (members, size, "tcp") not in measured:
                continue
            tcp, shared = fitted["tcp", size], fitted["shared memory", size]
            cells = [
                measured[members, size, "tcp"],
                over_connections(tcp, members, size, crowding),
                measured[members, size, "shared memory"],
                on_host(shared, members, size, crowding),
            ]
            print(
                f"| {members} | {size >> 10} KiB | "
                + " | ".join(f"{1e3 * cell:.3g} ms" for cell in cells)
                + " |"
            )
    if arguments.plot:
        plot(arguments.plot, fitted)


def plot(path, fitted):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    members = [1 << bit for bit in range(1, 11)]
    figure, axes = plt.subplots(1, len(SIZES), figsize=(5 * len(SIZES), 4))
    for axis, size in zip(axes, SIZES):
        tcp, shared = fitted["tcp", size], fitted["shared memory", size]
        for name, times in {
            "ring": [ring(tcp, n, size) for n in members],
            "halving and doubling": [halving(tcp, n, size) for n in members],
            "tfos, a node a host": [over_connections(tcp, n, size) for n in members],
            f"tfos, {NODES_ON_A_HOST} nodes a host": [
                hierarchical(tcp, shared, n, size) for n in members
            ],
        }.items():
            axis.plot(members, np.array(times) * 1e3, marker="o", markersize=3, label=name)
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="nodes",
            ylabel="ms",
            title=f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB",
        )
        axis.set_xticks(members[::3], [str(n) for n in members[::3]])
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
