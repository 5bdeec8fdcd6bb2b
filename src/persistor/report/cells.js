// One unit of each cell, whose candidate is the input: the library's `gate`, in numbers.
// x input, h state, p = { epsilon, threshold, scale, decay }
const heaviside = (x) => (x >= 0 ? 1 : 0);
const sign = (x) => 2 * heaviside(x) - 1;

function cumulative(x, h, p, epsilon) {
  const z = heaviside(Math.abs(x) - Math.abs(p.threshold));
  return z * (sign(x) * p.scale + epsilon * h) + (1 - z) * h;
}

const CELLS = {
  BMRU: (x, h, p) => cumulative(x, h, p, 0),
  CMRU: (x, h, p) => cumulative(x, h, p, p.epsilon),
  LRU: (x, h, p) => p.decay * h + Math.sqrt(1 - p.decay * p.decay) * x,
  minGRU: (x, h) => {
    const z = 1 / (1 + Math.exp(-x));
    return (1 - z) * h + z * x;
  },
};

function unroll(name, inputs, p) {
  let h = 0;
  return inputs.map((x) => (h = CELLS[name](x, h, p)));
}
