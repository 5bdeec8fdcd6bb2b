"""What can be said of a model or a task: inspection, theory, sampled text, examples."""
