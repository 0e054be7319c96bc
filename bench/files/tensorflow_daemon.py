"""PySpark's daemon with TensorFlow, so that no worker that it forks needs to import it.

Spark starts it in place of ``pyspark.daemon``. Saving an RDD to Hadoop gives up a worker each time, as
Spark looks at the first record before; what is measured would be the import.
"""

import tensorflow  # noqa: F401  (for the workers)
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
