// The page of the demo: accuracy by length, and the playground.
function drawLengths() {
  const series = data.lengths.map((line, look) => ({ ...line, look }));
  const { picture, x, y } = drawLines(field("lengths-here"), series,
    `accuracy over the length of the string: ${series.map((s) => s.name).join(", ")}`, [0.4, 1]);
  const [from, to] = data.seen.map((v) => x(Math.max(v, series[0].steps[0])));
  picture.prepend(svg("rect", { x: from, y: y(1), width: to - from, height: y(0.4) - y(1), class: "range" }));
  offer(field("lengths-files"), "accuracy-by-length", "accuracy by length", { picture: () => picture,
    rows: () => [["model", "length", "accuracy"], ...series.flatMap((s) => s.values.map((v, i) => [s.name, s.steps[i], v]))] });
}

if (data.lengths.length) {
  drawLengths();
  addEventListener("resize", drawLengths);
}

// The input of a trained model fades in and out, twice; each state over it.
function drawRamps() {
  for (const [number, { name, input, states, updates }] of data.ramps.entries()) {
    const list = [{ name: "input", kind: "given", values: input }, ...states.map((values, unit) =>
      ({ name: `unit ${unit}`, kind: "state", values, updates: updates[unit] }))];
    const { picture } = lanes(field(`ramp-${number}`), input.map((_, i) => i), list,
      `${name}: the strength of its input over the steps, its states, and each state over the strength`, true);
    offer(field(`ramp-files-${number}`), `hysteresis-${number}`, `the hysteresis of ${name}`, { picture: () => picture,
      rows: () => [["step", ...list.map((lane) => lane.name)], ...input.map((x, i) => [i, x, ...states.map((s) => s[i])])] });
  }
}
drawRamps();
addEventListener("resize", drawRamps);
persistor.playground(field("playground-here"));
document.documentElement.dataset.ready = document.querySelector("#playground-here [role=status]").textContent;
