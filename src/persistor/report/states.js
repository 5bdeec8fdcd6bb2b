// The states inside trained runs: one example at a time, with a cursor that reads out a step.

// Like kept_steps in states.py: the first step, then one in `every`, and the last.
function keptSteps({ steps, every }) {
  const kept = [];
  for (let step = 0; step < steps; step += every) kept.push(step);
  if (kept[kept.length - 1] !== steps - 1) kept.push(steps - 1);
  return kept;
}

function watchStates() {
  const choose = { run: field("inside-run"), example: field("inside-example"), block: field("inside-block") };
  const slider = field("inside-step");
  let list, xs, drawn, cursor;

  function options(select, names) {
    select.replaceChildren(...names.map((name, i) => new Option(name, i)));
  }

  function chooseRun() {
    const run = data.states[choose.run.value];
    options(choose.example, run.examples.map((e, i) => `${i + 1}: ${e.target} (${e.steps} steps)`));
    options(choose.block, run.examples[0].blocks.map((_, i) => String(i)));
    start();
  }

  function start() {
    const example = data.states[choose.run.value].examples[choose.example.value];
    slider.max = keptSteps(example).length - 1;
    slider.value = 0;
    draw();
  }

  function draw() {
    const run = data.states[choose.run.value];
    const example = run.examples[choose.example.value], block = example.blocks[choose.block.value];
    xs = keptSteps(example);
    list = [
      ...example.inputs.map((values, i) => ({ name: run.inputs[i], kind: "given", values, letters: example.letters })),
      ...block.states.map((values, i) => ({ name: `unit ${i}`, kind: "state", values, updates: block.updates[i] })),
    ];
    drawn = lanes(field("inside-lanes"), xs, list,
      "the input and the states over the steps, with marks where a unit updated; the slider reads out the values");
    cursor = svg("line", { y1: 0, y2: drawn.height, class: "cursor" });
    drawn.picture.append(cursor);
    for (const kind of ["pointerdown", "pointermove"]) drawn.picture.addEventListener(kind, seek);
    const thinned = `one step in ${example.every} and the last (a mark there stands for an update at any step ` +
      "since the one shown before)";
    const left = example.every > 1 ? [...run.left, thinned] : run.left;
    field("inside-left").textContent = left.length ? `To keep the page small, this is ${left.join("; ")}.` : "";
    read();
  }

  // The cursor to the step nearest to the pointer.
  function seek(event) {
    if (!event.buttons) return;
    const box = drawn.picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * drawn.picture.viewBox.baseVal.width;
    const distance = (i) => Math.abs(drawn.x(xs[i]) - at);
    slider.value = xs.reduce((best, _, i) => (distance(i) < distance(best) ? i : best), 0);
    read();
  }

  function read() {
    const at = Number(slider.value), step = xs[at];
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, drawn.x(step));
    const rows = list.map(({ name, values, letters, updates }) => [name,
      letters ? `${values[at]} ${JSON.stringify(letters[at])}` : String(values[at]),
      updates ? (updates[at] === "1" ? "yes" : "no") : ""]);
    field("inside-at").textContent = `${step} of 0 to ${xs[xs.length - 1]}`;
    field("inside-caption").textContent = `Values at step ${step}`;
    field("inside-values").replaceChildren(...rows.map((texts) => {
      const row = document.createElement("tr");
      row.append(...texts.map((text, i) => {
        const cell = document.createElement(i ? "td" : "th");
        if (!i) cell.scope = "row";
        cell.textContent = text;
        return cell;
      }));
      return row;
    }));
    slider.setAttribute("aria-valuetext", `step ${step}: ` + rows
      .map(([name, value, updated]) => `${name} ${value}${updated === "yes" ? " updated" : ""}`).join(", "));
  }

  choose.run.addEventListener("change", chooseRun);
  choose.example.addEventListener("change", start);
  choose.block.addEventListener("change", draw);
  slider.addEventListener("input", read);
  addEventListener("resize", draw);
  chooseRun();
}

if (data.states.length) watchStates();
