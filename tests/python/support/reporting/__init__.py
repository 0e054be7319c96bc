"""What pytest says of a run: skips that nobody has named, and failures as they come."""
