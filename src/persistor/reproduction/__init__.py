"""Reproducing the paper: plan and train the runs of its tables, and compare their outcomes."""
