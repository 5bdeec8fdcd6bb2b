const data = JSON.parse(document.getElementById("data").textContent);
const { svg, fitting, lanes } = persistor;
const field = (name) => document.getElementById(name);

function titled(node, text) {
  node.append(svg("title", {}, text));
  return node;
}

// Every entry of a table: the paper's range as a bar with its mean, a dot for each of our seeds.
function drawTable(box, table) {
  const entries = table.entries.filter((e) => e.values.length);
  if (!entries.length) return;
  const numbers = entries.flatMap((e) => [...e.values, ...(e.paper ? Object.values(e.paper) : [])]);
  const least = Math.min(...numbers), most = Math.max(...numbers);
  const pad = (most - least || 1) * 0.05;
  const low = least - pad, high = most + pad;
  const width = fitting(box), left = 190, line = 24, height = entries.length * line + 30;
  const at = (v) => left + ((v - low) / (high - low)) * (width - left - 16);
  const shown = (v) => (v * table.scale).toFixed(table.places);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${table.title}: the paper's ranges and our seeds; the table has the numbers` });
  entries.forEach((entry, i) => {
    const y = i * line + 16;
    picture.append(svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, entry.row));
    if (entry.paper) {
      const { mean, low: from, high: to } = entry.paper;
      picture.append(titled(svg("rect", { x: at(from), y: y - 6, height: 12, rx: 3,
        width: Math.max(2, at(to) - at(from)), class: "range" }),
        `paper ${shown(mean)} [${shown(from)}; ${shown(to)}]`));
      picture.append(svg("line", { x1: at(mean), x2: at(mean), y1: y - 8, y2: y + 8, class: "mean" }));
    }
    entry.values.forEach((v) => picture.append(titled(svg("circle", { cx: at(v), cy: y, r: 5,
      class: entry.budget === 1 ? "ours" : "ours reduced" }),
      `ours ${shown(v)}` + (entry.budget === 1 ? "" : ` (${(100 * entry.budget).toPrecision(2)}% of the steps)`))));
  });
  [...new Set([least, most])].forEach((v, i) => picture.append(svg("text", { x: at(v), y: height - 4,
    "text-anchor": i ? "end" : "start", class: "faint" }, shown(v))));
  box.replaceChildren(picture);
}

// An empty picture, and where a number of the common axis lies in it.
const LEFT = 56;
function frame(box, xs, height, label) {
  const width = fitting(box), from = xs[0], to = xs[xs.length - 1];
  const x = (v) => LEFT + ((v - from) / (to - from || 1)) * (width - LEFT - 8);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  box.replaceChildren(picture);
  return { picture, x, width };
}

// Lines over a common axis; `series` is [label, colour, values].
function drawLines(box, xs, series, label) {
  const height = 260, bottom = 28;
  const { picture, x, width } = frame(box, xs, height, label);
  const all = series.flatMap(([, , values]) => values);
  let low = Math.min(...all), high = Math.max(...all);
  if (low === high) { low -= 1; high += 1; }
  const y = (v) => 8 + ((high - v) / (high - low)) * (height - 8 - bottom);
  for (const v of [low, (low + high) / 2, high]) {
    picture.append(svg("line", { x1: LEFT, x2: width - 8, y1: y(v), y2: y(v), class: "grid" }));
    picture.append(svg("text", { x: LEFT - 6, y: y(v) + 4, "text-anchor": "end", class: "faint" },
      v.toPrecision(3)));
  }
  for (const [name, colour, values] of series) {
    const points = values.map((v, i) => `${x(xs[i]).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
    picture.append(titled(svg("polyline", { points, class: "line", style: `stroke:var(${colour})` }), name));
  }
  picture.append(svg("text", { x: LEFT, y: height - 8, class: "faint" }, String(xs[0])));
  picture.append(svg("text", { x: width - 8, y: height - 8, "text-anchor": "end", class: "faint" },
    String(xs[xs.length - 1])));
}

function drawTables() {
  for (const table of data.tables) drawTable(document.getElementById(`plot-${table.table}`), table);
}
drawTables();

const choice = document.getElementById("curve");
function showCurve() {
  const curve = data.curves[choice.value];
  if (!curve) return;
  const label = `${curve.metric} in validation over steps, ${curve.run}`;
  drawLines(document.getElementById("curves"), curve.steps, [[curve.metric, "--c1", curve.values]], label);
}
choice.addEventListener("change", showCurve);
showCurve();

persistor.playground(field("playground-here"));
addEventListener("resize", () => { drawTables(); showCurve(); });
document.documentElement.dataset.ready = document.querySelector("#playground-here [role=status]").textContent;
