"""What the programs of examples/ share, so that each is one file: data, and a Spark session.

Programs of yours need neither: they have data of their own, and make their session with
``SparkSession.builder``.
"""
