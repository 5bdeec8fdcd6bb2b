"""The paper repeated: its tables as runs to do, runs as outcomes, outcomes beside its numbers."""
