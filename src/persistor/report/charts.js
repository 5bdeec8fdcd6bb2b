// What the page draws with, and how pictures and numbers leave it.
const data = JSON.parse(document.getElementById("data").textContent);
const { node, svg, fitting, lanes } = persistor;
const field = (name) => document.getElementById(name);

function titled(made, text) {
  made.append(svg("title", {}, text));
  return made;
}

// A number with few digits, short enough to stand beside an axis.
const brief = (v, digits = 3) => (v && Math.abs(v) < 0.001 ? v.toExponential(1) : v.toPrecision(digits));

// A line for each series over a common axis, and their names below. A series is { name, values, steps, look },
// with the number of its look; `limits` are numbers that the vertical axis holds anyway.
const LOOKS = 6;
function drawLines(box, series, label, limits = [Infinity, -Infinity]) {
  const width = fitting(box), axis = 280, height = axis + 8 + 18 * series.length, left = 64;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const steps = series.flatMap((s) => [s.steps[0], s.steps[s.steps.length - 1]]);
  const from = Math.min(...steps), to = Math.max(...steps);
  let [low, high] = limits;
  for (const { values } of series) for (const v of values) { low = Math.min(low, v); high = Math.max(high, v); }
  if (low === high) { low -= 1; high += 1; }
  const x = (v) => left + ((v - from) / (to - from || 1)) * (width - left - 8);
  const y = (v) => 8 + ((high - v) / (high - low)) * (axis - 28);
  for (const v of [low, (low + high) / 2, high]) {
    picture.append(svg("line", { x1: left, x2: width - 8, y1: y(v), y2: y(v), class: "grid" }),
      svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end", class: "faint" }, brief(v)));
  }
  for (const { name, values, steps: at, look } of series) {
    const points = values.map((v, i) => `${x(at[i]).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
    picture.append(titled(svg("polyline", { points, class: `line look${look % LOOKS}` }), name));
  }
  for (const v of [from, (from + to) / 2, to]) {
    picture.append(svg("text", { x: x(v), y: axis, class: "faint",
      "text-anchor": v === from ? "start" : v === to ? "end" : "middle" }, Math.round(v).toLocaleString("en")));
  }
  series.forEach(({ name, look }, i) => {
    const at = axis + 18 * (i + 1);
    picture.append(svg("line", { x1: left, x2: left + 30, y1: at - 4, y2: at - 4, class: `line look${look % LOOKS}` }),
      svg("text", { x: left + 38, y: at }, name));
  });
  box.replaceChildren(picture);
  return { picture, x, y, from, to };
}

// A short line in the look of a series, as a key.
const key = (look) => svg("svg", { viewBox: "0 0 30 10", class: "key", "aria-hidden": "true" },
  svg("line", { x1: 0, x2: 30, y1: 5, y2: 5, class: `line look${look % LOOKS}` }));

function save(name, blob) {
  const link = node("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Rows of values as text with commas; a text that holds one is quoted.
const asCsv = (rows) => rows.map((row) => row.map((value) => {
  const text = String(value ?? "");
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",")).join("\n") + "\n";

// A picture as it looks here, with its colours written into it, twice as large.
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font"];
async function asPng(picture) {
  const copy = picture.cloneNode(true), { width, height } = picture.viewBox.baseVal;
  const originals = [picture, ...picture.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((made, i) => {
    const seen = getComputedStyle(originals[i]);
    made.setAttribute("style", STYLES.map((name) => `${name}:${seen.getPropertyValue(name)}`).join(";"));
  });
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
  await image.decode();
  const canvas = node("canvas", { width: 2 * width, height: 2 * height }), paint = canvas.getContext("2d");
  paint.fillStyle = getComputedStyle(document.body).backgroundColor;
  paint.fillRect(0, 0, canvas.width, canvas.height);
  paint.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

// Buttons that save what is shown: `rows` gives numbers, `picture` a drawing.
function offer(place, name, what, { rows, picture }) {
  const button = (kind, act) => {
    const made = node("button", { type: "button", "aria-label": `Save ${what} as ${kind}` }, kind);
    made.addEventListener("click", act);
    return made;
  };
  place.replaceChildren("Save: ",
    ...(rows ? [button("CSV", () => save(`${name}.csv`, new Blob([asCsv(rows())], { type: "text/csv" })))] : []),
    ...(picture ? [button("PNG", async () => save(`${name}.png`, await asPng(picture())))] : []));
}
