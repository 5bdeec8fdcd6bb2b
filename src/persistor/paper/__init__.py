"""What the paper publishes, as data: its tables of results, and its budgets."""
