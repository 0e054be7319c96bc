"""Programs that nodes run. They are here because nodes import them."""
