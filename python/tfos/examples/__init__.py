"""What the programs of examples/ share, so that each is one file: data, and a Spark session.

Your programs need neither: they have their own data, and make their session with
``SparkSession.builder``.
"""
