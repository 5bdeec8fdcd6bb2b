// The map of the reproduction, and the tables behind it.

// The map: one stop of the Tab key, then the arrow keys; a line of text says what a cell holds.
function useMap() {
  const maps = [...document.querySelectorAll(".map")], says = field("map-says");
  if (!maps.length) return;
  const cells = (map) => [...map.tBodies[0].rows].map((row) => [...row.cells].slice(1));
  const first = maps[0].querySelector("td[data-row]");
  let stop = first;
  stop.tabIndex = 0;
  const say = (cell) => { if (cell) says.textContent = cell.title; };
  function go(cell) {
    stop.tabIndex = -1;
    stop = cell;
    stop.tabIndex = 0;
    stop.focus();
  }
  function open(cell) {
    const row = field(cell.dataset.row);
    for (let at = row; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    row.tabIndex = -1;
    row.focus();
    row.scrollIntoView({ block: "center" });
  }
  const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  for (const map of maps) {
    const own = (event) => event.target.closest("td[data-row]");
    map.addEventListener("mouseover", (event) => say(own(event)));
    map.addEventListener("focusin", (event) => say(own(event)));
    map.addEventListener("click", (event) => { if (own(event)) { go(own(event)); open(own(event)); } });
    map.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && own(event)) open(own(event));
      const move = MOVES[event.key];
      if (!move || !own(event)) return;
      event.preventDefault();
      const grid = cells(map), row = grid.findIndex((line) => line.includes(stop));
      const [down, right] = move, column = grid[row].indexOf(stop);
      let next = null;
      for (let r = row + down, c = column + right; grid[r]?.[c]; r += down, c += right) {
        if (grid[r][c].dataset.row) { next = grid[r][c]; break; }
      }
      if (!next && down) {  // past the edge: the table before or after
        const other = maps[maps.indexOf(map) + down], there = other && cells(other).flat().filter((c) => c.dataset.row);
        next = there && (down > 0 ? there[0] : there[there.length - 1]);
      }
      if (next) go(next);
    });
  }
}

// Every measured entry of some tables as rows of numbers.
function tableRows(tables) {
  const options = ["task", "cell", "epsilon", "state", "blocks", "length"], numbers = ["mean", "low", "high"];
  const head = ["table", ...options, "metric", "architecture", "seeds", "budget", ...numbers.map((n) => `ours ${n}`),
    ...numbers.map((n) => `paper ${n}`), "verdict"];
  const rows = tables.flatMap((table) => [table, ...(table.beside ? [table.beside] : [])].flatMap((one) =>
    one.entries.filter((e) => e.values.length).map((e) => [table.table, ...options.map((o) => e[o]), table.metric,
      one.architecture, e.values.length, e.budget, ...numbers.map((n) => e.ours[n]),
      ...numbers.map((n) => e.paper?.[n]), e.budget === 1 ? e.verdict : "reduced budget"])));
  return [head, ...rows];
}

// Measured entries of a table: the paper's range as a bar with its mean, a mark for each of our seeds.
function drawTable(box, table) {
  const beside = table.beside?.entries ?? [];
  const entries = table.entries.map((e, i) => ({ ...e, robust: beside[i] ?? { values: [] } }))
    .filter((e) => e.values.length || e.robust.values.length);
  const numbers = entries.flatMap((e) => [...e.values, ...e.robust.values, ...(e.paper ? Object.values(e.paper) : [])]);
  const least = Math.min(...numbers), most = Math.max(...numbers), pad = (most - least || 1) * 0.05;
  const low = least - pad, high = most + pad;
  const width = fitting(box), left = 190, line = 24, height = entries.length * line + 30;
  const at = (v) => left + ((v - low) / (high - low)) * (width - left - 16);
  const shown = (v) => (v * table.scale).toFixed(table.places);
  const share = (budget) => (budget === 1 ? "" : ` (${(100 * budget).toPrecision(2)}% of the steps)`);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${table.title}: the paper's ranges and our seeds; the table has the numbers` });
  entries.forEach((entry, i) => {
    const y = i * line + 16, kind = (e, own) => (e.budget === 1 ? own : `${own} reduced`);
    picture.append(svg("line", { x1: left, x2: width - 8, y1: y, y2: y, class: "grid" }),
      svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, entry.row));
    if (entry.paper) {
      const { mean, low: from, high: to } = entry.paper;
      picture.append(titled(svg("rect", { x: at(from), y: y - 6, height: 12, rx: 3,
        width: Math.max(2, at(to) - at(from)), class: "range" }),
        `paper ${shown(mean)} [${shown(from)}; ${shown(to)}]`));
      picture.append(svg("line", { x1: at(mean), x2: at(mean), y1: y - 8, y2: y + 8, class: "mean" }));
    }
    for (const v of entry.values) picture.append(titled(svg("circle", { cx: at(v), cy: y - 3, r: 4,
      class: kind(entry, "ours") }), `ours ${shown(v)}${share(entry.budget)}`));
    for (const v of entry.robust.values) {
      const d = `M${at(v)} ${y - 1}l5 5l-5 5l-5 -5z`;
      picture.append(titled(svg("path", { d, class: kind(entry.robust, "robust") }),
        `robust ${shown(v)}${share(entry.robust.budget)}`));
    }
  });
  [...new Set([least, most])].forEach((v, i) => picture.append(svg("text", { x: at(v), y: height - 4,
    "text-anchor": i ? "end" : "start", class: "faint" }, shown(v))));
  const files = node("p", { class: "files" });
  box.replaceChildren(picture, files);
  offer(files, table.table, `the table ${table.table}`, { rows: () => tableRows([table]), picture: () => picture });
}

// A table is drawn when its claim is unfolded.
function drawTables(all = false) {
  for (const table of data.tables) {
    const box = document.querySelector(`[data-table="${table.table}"]`);
    if (all || box.closest(".claim").open) drawTable(box, table);
  }
}

useMap();
offer(field("map-files"), "entries", "all measured entries", { rows: () => tableRows(data.tables) });
for (const claim of document.querySelectorAll(".claim")) claim.addEventListener("toggle", () => drawTables());
drawTables();
