"""The paper beside ours: its tables as data, and what it takes to repeat them."""
