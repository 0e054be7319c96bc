"""The example of the old package."""
