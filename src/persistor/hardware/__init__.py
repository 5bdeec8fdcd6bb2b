"""From a trained cell to a circuit: mapping, rules, netlist, simulation, verification."""
