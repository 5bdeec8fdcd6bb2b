"""Trained models as programs for other machines: C99, and the proof that it computes the same."""
