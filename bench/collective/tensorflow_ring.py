"""One process of a rival: TensorFlow's MultiWorkerMirroredStrategy, RING over gRPC.

    TF_CONFIG=... python bench/collective/tensorflow_ring.py BYTES,BYTES,... ROUNDS

The chief writes a line of JSON for each size.
"""

import json
import os
import sys

import contender
import tensorflow as tf

sizes = [int(size) for size in sys.argv[1].split(",")]
task = json.loads(os.environ["TF_CONFIG"])
members = len(task["cluster"]["worker"])
rank = task["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy(
    communication_options=tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
)


@tf.function
def reduce(tensor):
    def of_replica(mine):
        # The strategy wants to know the device it is on.
        return tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, tf.identity(mine)
        )

    return strategy.run(of_replica, args=(tensor,))


contender.measure("TensorFlow", reduce, sizes, int(sys.argv[2]), rank, members, most_calls=50)
