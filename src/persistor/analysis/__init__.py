"""A closer look at models and tasks: inspection, theory, sampled text, examples."""
