"""Keras models that nodes train together: what is behind ``ctx.distribute``."""
