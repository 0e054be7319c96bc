"""One process of a rival: TensorFlow's MultiWorkerMirroredStrategy, RING over gRPC.

    TF_CONFIG=... python bench/collective/tensorflow_ring.py BYTES,BYTES,... ROUNDS

The chief writes a line of JSON for each size.
"""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

sizes = [int(size) for size in sys.argv[1].split(",")]
rounds = int(sys.argv[2])
task = json.loads(os.environ["TF_CONFIG"])
members = len(task["cluster"]["worker"])
rank = task["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy(
    communication_options=tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING))


for size in sizes:
    count = size // 4
    value = tf.range(count, dtype=tf.float32) % 1000 + float(rank)

    @tf.function
    def reduce(tensor):
        def of_replica(mine):
            # The strategy wants to know the device it is on.
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM,
                                                                  tf.identity(mine))
        return strategy.run(of_replica, args=(tensor,))

    found = reduce(value).numpy()
    expected = (np.arange(count, dtype=np.float32) % 1000) * members + members * (members - 1) / 2
    np.testing.assert_array_equal(found, expected)
    times = max(1, min(50, (32 << 20) // size))
    seconds = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        for _ in range(times):
            result = reduce(value)
        result.numpy()
        seconds.append((time.perf_counter() - begin) / times)
    if rank == 0:
        print("RESULT", json.dumps({"members": members, "bytes": size, "contender": "TensorFlow",
                                    "seconds": seconds[1:]}), flush=True)
