"""The paper's tables of results and its budgets, as data."""
