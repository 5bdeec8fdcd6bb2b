"""Data sets: where they come from, where they lie, what is in them. Nothing here needs JAX."""
