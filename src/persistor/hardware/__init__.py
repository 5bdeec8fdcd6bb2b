"""From a trained cell to a circuit: a pipeline of values, from mapping to proof."""
