"""TFRecord files as a data source of Spark."""
