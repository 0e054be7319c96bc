"""Spark as tests use it: a fake session, its errors, all types of SQL, slots that are held."""
