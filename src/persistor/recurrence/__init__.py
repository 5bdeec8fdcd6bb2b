"""From gates to states: transitions, how they are unrolled, and the gradients that train them."""
