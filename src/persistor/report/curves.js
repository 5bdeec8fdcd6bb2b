// Learning curves: choose runs to compare; every metric has a picture of its own.
function compareCurves(place) {
  const MOST = LOOKS, LISTED = 60;
  const chosen = new Map(), boxes = new Map(); // run -> its look, its box in the list
  const search = node("input", { type: "search", placeholder: "for example parity robust" });
  const list = node("ul", { class: "runs" }), more = node("p", { role: "status" });
  const pictures = node("div", {}), values = node("tbody", {});
  const slider = node("input", { type: "range", min: 0, max: 200, value: 200 }), at = node("output", {});
  const table = node("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values of the chosen runs" },
    node("table", { class: "values" }, node("thead", {}, node("tr", {},
      ...["", "run", "metric", "at the step", "best", "test", ""].map((t) => node(t ? "th" : "td",
        t ? { scope: "col" } : {}, t)))), values));
  place.append(node("p", {}, `Validation over the steps of training. Choose up to ${MOST} runs.`),
    node("label", { class: "search" }, "Show runs whose names have these words ", search), list, more, pictures,
    node("label", { class: "step" }, "step ", at, slider), table);
  let cursors = [];

  function found() {
    const words = search.value.toLowerCase().split(/\s+/);
    return data.curves.map((curve, i) => [curve, i])
      .filter(([curve]) => words.every((word) => curve.run.toLowerCase().includes(word)));
  }

  function fill() {
    const runs = found();
    boxes.clear();
    list.replaceChildren(...runs.slice(0, LISTED).map(([curve, i]) => {
      const box = node("input", { type: "checkbox" });
      boxes.set(i, box);
      box.addEventListener("change", () => choose(i, box.checked));
      return node("li", {}, node("label", { title: curve.run }, box, ` ${curve.label} `, node("small", {},
        `${curve.steps[curve.steps.length - 1].toLocaleString("en")} steps`)));
    }));
    more.textContent = `${runs.length} of ${data.curves.length} runs` +
      (runs.length > LISTED ? `; the first ${LISTED} are listed, so say more of the name.` : ".");
    mark();
  }

  // The list as it is, so that the keyboard stays where it was.
  function mark() {
    for (const [i, box] of boxes) {
      box.checked = chosen.has(i);
      box.disabled = !box.checked && chosen.size === MOST;
    }
  }

  function choose(i, wanted) {
    const free = Array.from({ length: MOST }, (_, look) => look).find((look) => ![...chosen.values()].includes(look));
    if (wanted) chosen.set(i, free); else chosen.delete(i);
    mark();
    draw();
  }

  function draw() {
    const metrics = new Map();
    for (const [i, look] of chosen) {
      const { metric, label, steps, values: line } = data.curves[i];
      if (!metrics.has(metric)) metrics.set(metric, []);
      metrics.get(metric).push({ name: label, steps, values: line, look });
    }
    cursors = [];
    pictures.replaceChildren(...[...metrics].map(([metric]) => node("figure", {},
      node("figcaption", {}, `${metric.replaceAll("_", " ")} in validation`), node("div", {}), node("p", { class: "files" }))));
    [...metrics].forEach(([metric, series], number) => {
      const [, box, files] = pictures.children[number].children;
      const drawn = drawLines(box, series,
        `${metric} in validation over steps: ${series.map((s) => s.name).join(", ")}`);
      const cursor = svg("line", { y1: 0, y2: 260, class: "cursor" });
      drawn.picture.append(cursor);
      cursors.push({ ...drawn, cursor });
      offer(files, `curves-${metric}`, `the chosen curves of ${metric}`,
        { rows: () => rows(metric), picture: () => drawn.picture });
    });
    read();
  }

  const last = () => Math.max(1, ...[...chosen.keys()].map((i) => data.curves[i].steps.at(-1)));
  function read() {
    const step = Math.round((Number(slider.value) / 200) * last());
    at.textContent = step.toLocaleString("en");
    slider.setAttribute("aria-valuetext", `step ${step}`);
    for (const { cursor, x, from, to } of cursors) {
      for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(Math.min(to, Math.max(from, step))));
    }
    values.replaceChildren(...[...chosen].map(([i, look]) => {
      const { run, label, metric, steps, values: line, test } = data.curves[i];
      const seen = steps.findLastIndex((s) => s <= step);
      const best = metric === "accuracy" ? Math.max(...line) : Math.min(...line);
      const leave = node("button", { type: "button", "aria-label": `Leave out ${label}` }, "leave out");
      leave.addEventListener("click", () => choose(i, false));
      return node("tr", {}, node("td", {}, key(look)), node("th", { scope: "row", title: run }, label),
        ...[metric, seen < 0 ? "" : brief(line[seen], 4), brief(best, 4), brief(test, 4)].map((text) => node("td", {}, text)),
        node("td", {}, leave));
    }));
  }

  const rows = (metric) => [["run", "step", metric], ...[...chosen.keys()].map((i) => data.curves[i])
    .filter((curve) => curve.metric === metric)
    .flatMap(({ run, steps, values: line }) => steps.map((step, n) => [run, step, line[n]]))];

  search.addEventListener("input", fill);
  slider.addEventListener("input", read);
  addEventListener("resize", draw);
  for (let i = 0; i < Math.min(2, data.curves.length); i++) chosen.set(i, i);
  fill();
  draw();
}

if (data.curves.length) compareCurves(field("learning-here"));
else field("learning-here").append(node("p", {}, "No run here is finished yet."));
