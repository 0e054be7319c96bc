"""The checkpoints of a training that ``ctx.checkpoint`` writes and restores."""
