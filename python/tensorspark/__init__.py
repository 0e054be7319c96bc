"""TF1-style training on Spark as in the old package of this name, over tfos' parameter server.

    from tensorspark.core import spark_session as sps

See :class:`tensorspark.core.spark_session.SparkSession`.
"""
