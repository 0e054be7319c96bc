"""Whether nodes that are killed again and again end with the weights of one machine.

    python bench/recovery/equality.py [--failures 50] [--seed 1] [--output docs/performance.md]

Clusters train one after the other: two nodes with `nodes=(1, 2)`, three with `nodes=(2, 3)`, and
three with `nodes=(3, 3)`, which wait for the one that was lost, all of them with `fit`. Then three
train in a loop with `tfos.elastic.State`. In steps and at moments of these that the seed chooses, a
node is killed (SIGKILL). It comes again, and so on. Every node writes down each step that it has
made, with the batches that were summed up in it, and a digest of weights and optimizer.

- No step may be missing or come twice, and nodes may not differ in one.
- One machine without tfos makes the same steps (equality_alone.py). After each of them all bits of
  weights and optimizer must be those of the nodes.
- When all nodes are there again, another cluster begins with their state and is not disturbed. It
  must end with the same bits.

Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE)]

import report  # noqa: E402  (beside the feed's benchmarks)

report.make_ready(HERE)

import equality_alone  # noqa: E402
import equality_nodes  # noqa: E402
import equality_steps as steps  # noqa: E402
import numpy as np  # noqa: E402

#: The loop, what is passed as `nodes=`, and the units of the model. Nodes of one host sum up all
#: gradients if they are few, each of them; if they are many, each sums up a share.
CLUSTERS = [("fit", (1, 2), 128), ("fit", (2, 3), 128), ("fit", (3, 3), 32), ("state", (2, 3), 128)]
#: What users call the loops.
LOOPS = {"fit": "fit", "state": "tfos.elastic.State"}
#: A bound for a run that goes wrong, in seconds.
LONGEST = 3000


def plan_of(count, nodes, seed):
    """Which node is killed when, so many times. No node much more often than others: tfos gives one
    up after 15 restarts."""
    choice = random.Random(seed)
    victims = [number % nodes for number in range(count)]
    choice.shuffle(victims)
    return [
        {
            "victim": victim,
            # Steps of all nodes before, and steps without the victim until the others wait for it.
            "after": choice.randint(2, steps.STEPS_OF_AN_EPOCH),
            "alone": choice.randint(1, steps.STEPS_OF_AN_EPOCH),
            # In steps, from the beginning of one on.
            "moment": choice.uniform(0, 1.3),
        }
        for victim in victims
    ]


def run_nodes(spark, loop, nodes, **args):
    import tfos

    program = equality_nodes.LOOPS[loop]
    with tfos.run(spark, program, nodes=nodes, input_mode="tensorflow", args=args) as cluster:
        cluster.wait(timeout=LONGEST)


def states_of(directory, what):
    """The states that the nodes have saved, by file."""
    states = {}
    for path in sorted(pathlib.Path(directory).glob(f"{what}-*.npz")):
        with np.load(path) as file:
            states[path] = {name: file[name] for name in file}
    return states


def run(spark, loop, nodes, units, failures, seed, directory):
    """What one cluster has done and where it differs, as a dict."""
    directory.mkdir()
    plan = plan_of(failures, nodes[1], seed)
    run_nodes(spark, loop, nodes, directory=str(directory), units=units, plan=plan)
    killed = len(list(directory.glob("back-*")))
    lives = sum(len(path.read_text().split()) for path in directory.glob("lives-*"))
    assert killed == failures and lives == nodes[1] + failures, f"{killed} killed, {lives} lives"
    ends = list(states_of(directory, "end").values())
    assert len(ends) == nodes[1], f"{len(ends)} nodes have ended"
    state = next(iter(states_of(directory, "state")))
    step = int(re.fullmatch(r"state-\d+-(\d+)\.npz", state.name)[1])
    begin = {"state": str(state), "step": step, "last": step + equality_nodes.STEPS_AFTER}
    undisturbed = directory / "undisturbed"
    undisturbed.mkdir()
    run_nodes(spark, loop, nodes[1], directory=str(undisturbed), units=units, plan=[], begin=begin)
    done = steps.committed(directory)
    again = steps.committed(undisturbed)
    others = states_of(undisturbed, "end").values()
    return {
        "loop": loop,
        "nodes": list(nodes),
        "units": units,
        "killed": killed,
        "partial": sum(line["batches"].count(0) > steps.NODES - nodes[1] for line in done),
        "nodes are equal": all(equality_alone.difference(end, ends[0])["bits"] for end in ends),
        "undisturbed is equal": done[-len(again) :] == again
        and len(others) == nodes[1]
        and all(equality_alone.difference(other, ends[0])["bits"] for other in others),
        **alone(directory, units, loop),
    }


def alone(directory, units, loop):
    """What equality_alone.py finds, in a process of its own."""
    command = [sys.executable, str(HERE / "equality_alone.py"), str(directory)]
    done = subprocess.run(
        [*command, "--units", str(units), "--loop", loop],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if not done.stdout:
        raise SystemExit("equality_alone.py has failed")
    return json.loads(done.stdout.splitlines()[-1])


def is_equal(found):
    return (
        found["nodes are equal"]
        and found["undisturbed is equal"]
        and found["apart"]["bits"]
        and found["steps that differ"] == 0
    )


def rows_of(results):
    lines = [
        "| loop | `nodes=` | nodes killed | steps | without all nodes | one machine, batch by "
        "batch | undisturbed cluster | one machine, all rows at once |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for found in results:
        apart, at_once = found["apart"], found["at once"]
        bits = "the same bits after each step"
        if not apart["bits"] or found["steps that differ"]:
            bits = (
                f"{found['steps that differ']} steps differ, from {found['first that differs']} "
                f"on; {apart['ulps']:,} ulp at the end"
            )
        least, most = found["nodes"]
        lines.append(
            f"| `{LOOPS[found['loop']]}` | ({least}, {most}) | {found['killed']} | "
            f"{found['steps']:,} | {found['partial']:,} | {bits} | "
            f"{'the same bits' if found['undisturbed is equal'] else 'differs'} | "
            f"up to {at_once['absolute']:.1e} apart |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--failures", type=int, default=50, help="of all clusters together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clusters", type=int, nargs="+", default=list(range(len(CLUSTERS))))
    parser.add_argument("--directory", type=pathlib.Path, help="where what nodes write is kept")
    parser.add_argument("--output", type=pathlib.Path, help="a page whose part is replaced")
    options = parser.parse_args()

    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local-cluster[{steps.NODES},1,1024]")
        .appName("equality")
        .config("spark.ui.enabled", "false")
        .config("spark.task.maxFailures", "1000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    results = []
    try:
        with tempfile.TemporaryDirectory() as name:
            kept = options.directory or pathlib.Path(name)
            for place, number in enumerate(options.clusters):
                share = options.failures * (place + 1) // len(options.clusters)
                share -= options.failures * place // len(options.clusters)
                directory = kept / f"cluster-{number}"
                results.append(run(spark, *CLUSTERS[number], share, options.seed, directory))
                print(json.dumps(results[-1]), flush=True)
    finally:
        spark.stop()
    report.publish(
        "equality.py",
        options.failures,
        f"`--seed {options.seed}`, Adam, epochs of {steps.STEPS_OF_AN_EPOCH} steps.",
        rows_of(results),
        options.output,
        folder="recovery",
        option="failures",
    )
    sys.exit(0 if all(map(is_equal, results)) else 1)


if __name__ == "__main__":
    main()
