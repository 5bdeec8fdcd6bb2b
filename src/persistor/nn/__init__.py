"""Layers that act on each step by itself, the sequences they act on, and positions."""
