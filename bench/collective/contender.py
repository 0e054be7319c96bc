"""What tensorflow_ring.py and tfos_ops.py have in common: an all-reduce that is checked, and timed."""

import json
import time

import numpy as np
import tensorflow as tf

_BYTES_OF_A_ROUND = 32 << 20


def measure(name, reduce, sizes, rounds, rank, members, most_calls):
    """Member 0 writes a line of JSON for each of ``sizes``, in bytes; a round is up to ``most_calls``
    calls of ``reduce``, and the first one is not counted."""
    for size in sizes:
        count = size // 4
        value = tf.range(count, dtype=tf.float32) % 1000 + float(rank)
        found = reduce(value).numpy()
        expected = (np.arange(count, dtype=np.float32) % 1000) * members + members * (
            members - 1
        ) / 2
        np.testing.assert_array_equal(found, expected)
        calls = max(1, min(most_calls, _BYTES_OF_A_ROUND // size))
        seconds = []
        for _ in range(rounds + 1):
            begin = time.perf_counter()
            for _ in range(calls):
                result = reduce(value)
            result.numpy()
            seconds.append((time.perf_counter() - begin) / calls)
        if rank == 0:
            print(
                "RESULT",
                json.dumps(
                    {"members": members, "bytes": size, "contender": name, "seconds": seconds[1:]}
                ),
                flush=True,
            )
