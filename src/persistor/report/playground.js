// The hysteresis playground: one unit of each cell, and an input that a person moves.
//
// `persistor.playground(element)` mounts it into an element, in any page and without any other file.
// Its colours follow the color-scheme of the page, and its settings stand in the page's address.
const persistor = (() => {
  // One unit of each cell, whose candidate is the input: the library's `gate`, in numbers.
  // x input, h state, p = { epsilon, threshold, scale, decay }
  const heaviside = (x) => (x >= 0 ? 1 : 0);
  const sign = (x) => 2 * heaviside(x) - 1;
  const updates = (x, p) => heaviside(Math.abs(x) - Math.abs(p.threshold));

  function cumulative(x, h, p, epsilon) {
    const z = updates(x, p);
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
  const PERSISTENT = ["BMRU", "CMRU"];

  function unroll(name, inputs, p) {
    let h = 0;
    return inputs.map((x) => (h = CELLS[name](x, h, p)));
  }

  const SETTINGS = {
    epsilon: { label: "epsilon of CMRU", min: -1, max: 1, step: 0.05, value: 1 },
    threshold: { label: "threshold of BMRU and CMRU", min: 0, max: 2, step: 0.05, value: 1 },
    scale: { label: "scale of BMRU and CMRU", min: 0.1, max: 2, step: 0.05, value: 1 },
    decay: { label: "eigenvalue of LRU", min: 0.5, max: 0.99, step: 0.01, value: 0.9 },
  };
  const MOST = 400; // steps
  const REACH = 2; // of the input, to both sides
  const GRID = 0.05; // of the input

  // Stretches of constant input as a list of inputs: [value, steps], ...
  const stretches = (...pairs) => pairs.flatMap(([value, steps]) => Array(steps).fill(value));
  const snapped = (x) => Number((Math.round(Math.min(REACH, Math.max(-REACH, x)) / GRID) * GRID).toFixed(2));
  const events = stretches([0, 5], [1.5, 2], [0, 25], [-1.5, 2], [0, 25], [1.5, 2], [0, 25]);

  // The same noise in every browser: uniform numbers in [-1, 1].
  function noise(count) {
    let seed = 7;
    return Array.from({ length: count }, () => {
      seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
      return seed / 0x3fffffff - 1;
    });
  }

  const PRESETS = {
    events: { label: "three events", inputs: events },
    noise: { label: "a noisy input", inputs: noise(events.length).map((n, i) => snapped(events[i] + 0.6 * n)) },
    silence: { label: "a long silence", inputs: stretches([0, 5], [1.5, 2], [0, MOST - 7]) },
    loop: { label: "slowly up and down",
      inputs: Array.from({ length: 120 }, (_, i) => snapped(1.6 * Math.sin((i * Math.PI) / 30))) },
  };

  // What is shown, as the end of an address: settings that were changed, and the input as the name of a
  // preset or as stretches such as 0x5_1.5x2. `values` = { preset, inputs, epsilon, threshold, ... }
  function toAddress(values) {
    const parts = new URLSearchParams();
    parts.set("input", values.preset || runs(values.inputs));
    for (const [name, { value }] of Object.entries(SETTINGS)) {
      if (values[name] !== value) parts.set(name, values[name]);
    }
    return `#playground&${parts}`;
  }

  const runs = (inputs) => inputs.reduce((found, x) => {
    const last = found[found.length - 1];
    if (last && last[0] === x) last[1] += 1; else found.push([x, 1]);
    return found;
  }, []).map(([x, times]) => (times > 1 ? `${x}x${times}` : `${x}`)).join("_");

  // The same the other way; what an address does not say, or says wrongly, is as at the start.
  function fromAddress(address) {
    const parts = new URLSearchParams(address.startsWith("#playground&") ? address.slice(12) : "");
    const values = { preset: "events", inputs: PRESETS.events.inputs };
    for (const [name, { min, max, value }] of Object.entries(SETTINGS)) {
      const given = parts.get(name) === null ? NaN : Number(parts.get(name));
      values[name] = given >= min && given <= max ? given : value;
    }
    const input = parts.get("input") || "";
    if (Object.hasOwn(PRESETS, input)) return { ...values, preset: input, inputs: PRESETS[input].inputs };
    const found = input.split("_").map((run) => /^(-?\d+(?:\.\d+)?)(?:x(\d{1,3}))?$/.exec(run));
    if (!input || !found.every(Boolean)) return values;
    const inputs = found.flatMap(([, x, times]) => Array(Number(times ?? 1)).fill(snapped(Number(x))));
    return inputs.length ? { ...values, preset: "", inputs: inputs.slice(-MOST) } : values;
  }

  function node(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function svg(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // The width to draw at: text keeps its size on a narrow screen.
  const fitting = (box) => Math.min(960, Math.max(300, box.clientWidth));

  // Lanes over a common axis, each on its own scale, and below it a bar over every stretch of updates.
  // A lane is { name, kind, values, updates: "0110..." or nothing, lines: values to mark across it }.
  const LEFT = 64, LANE = 56;
  function lanes(box, xs, list, label, right = 8) {
    const width = fitting(box), height = list.length * LANE + 20;
    const from = xs[0], to = xs[xs.length - 1];
    const x = (v) => LEFT + ((v - from) / (to - from || 1)) * (width - LEFT - right);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    const half = (x(xs[1] ?? from) - x(from)) / 2;
    const say = (at, y, text, kind) => picture.append(svg("text", { x: at, y, class: kind,
      "text-anchor": at === LEFT ? "start" : "end" }, text));
    const scales = list.map(({ name, kind, values, updates: marks, lines = [] }, number) => {
      const top = number * LANE + 6;
      const low = Math.min(...values, ...lines), high = Math.max(...values, ...lines);
      const y = (v) => top + (high === low ? 17 : ((high - v) / (high - low)) * 34);
      for (const v of lines) {
        picture.append(svg("line", { x1: LEFT, x2: width - right, y1: y(v), y2: y(v), class: "limit" }));
      }
      const points = values.map((v, i) => `${x(xs[i]).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
      picture.append(svg("polyline", { points, class: `line ${kind}` }));
      say(LEFT - 6, top + 21, name, "");
      if (high > low) say(LEFT - 6, top + 6, high.toPrecision(3), "faint");
      say(LEFT - 6, top + 36, low.toPrecision(3), "faint");
      const path = [...(marks ?? "").matchAll(/1+/g)].map(({ index, 0: run }) => {
        const start = Math.max(LEFT, x(xs[index]) - half);
        const end = Math.min(width - right, x(xs[index + run.length - 1]) + half);
        return `M${start.toFixed(1)} ${top + 42}H${Math.max(end, start + 1).toFixed(1)}`;
      }).join("");
      if (path) picture.append(svg("path", { d: path, class: "mark" }));
      return y;
    });
    say(LEFT, height - 6, String(from), "faint");
    say(width - right, height - 6, String(to), "faint");
    box.replaceChildren(picture);
    return { picture, x, width, height, scales };
  }

  const STYLE = `
.playground { --pg-ink: light-dark(#1b1b1b, #ececec); --pg-faint: light-dark(#5f5f5f, #a5a5a5);
  --pg-rule: light-dark(#dcdcdc, #383c41); --pg-keep: light-dark(#b34700, #ff8a3d);
  --pg-fade: light-dark(#0072b2, #56b4e9); }
.playground svg { display: block; width: 100%; height: auto; }
.playground svg text { font: 12px system-ui, sans-serif; fill: var(--pg-ink); }
.playground svg .faint { fill: var(--pg-faint); }
.playground .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.playground .given { stroke: var(--pg-faint); } .playground .keeps { stroke: var(--pg-keep); }
.playground .fades { stroke: var(--pg-fade); } .playground .mark { stroke: var(--pg-ink); stroke-width: 4; }
.playground .limit { stroke: var(--pg-faint); stroke-dasharray: 3 4; }
.playground .loop { opacity: .6; stroke-width: 1.5; } .playground .now { fill: var(--pg-ink); }
.playground .edge { fill: none; stroke: var(--pg-rule); }
.pg-controls { display: grid; grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); gap: .6rem 1.5rem; }
.pg-controls label { display: block; } .pg-controls input { display: block; width: 100%; margin: .2rem 0; }
.pg-buttons { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: .8rem 0; }
.playground button, .playground select { font: inherit; padding: .25rem .8rem; max-width: 100%; }
.playground [role=status] { margin: .4rem 0; font-variant-numeric: tabular-nums; }`;

  // Mount the playground. With `play` it plays its input at once, unless the person wants no motion.
  function playground(element, { play: atOnce = false } = {}) {
    let values = fromAddress(location.hash), shown = values.inputs.length, timer = null;
    const box = node("div", { class: "pg-picture" }), status = node("p", { role: "status" });
    const button = (text, act) => {
      const made = node("button", { type: "button" }, text);
      made.addEventListener("click", act);
      return made;
    };
    const slider = (text, { min, max, step, value }, act) => {
      const range = node("input", { type: "range", min, max, step, value }), out = node("output", {});
      range.addEventListener("input", () => act(Number(range.value)));
      range.addEventListener("change", remember);
      return { range, out, label: node("label", {}, `${text}: `, out, range) };
    };
    const input = slider("input (every move is one step)",
      { min: -REACH, max: REACH, step: GRID, value: 0 }, (x) => feed(x, 1));
    const sliders = Object.fromEntries(Object.entries(SETTINGS).map(([name, setting]) =>
      [name, slider(setting.label, setting, (value) => { values[name] = value; draw(); })]));
    const choice = node("select", {}, node("option", { value: "" }, "by hand"),
      ...Object.entries(PRESETS).map(([name, { label }]) => node("option", { value: name }, label)));
    choice.addEventListener("change", () => {
      stop();
      if (choice.value) values = { ...values, preset: choice.value, inputs: PRESETS[choice.value].inputs };
      else values.preset = "";
      shown = values.inputs.length;
      draw();
      remember();
    });
    const player = button("Play", () => (timer === null ? start() : stop()));
    const buttons = node("div", { class: "pg-buttons" }, node("label", {}, "input ", choice), player,
      button("Hold the input for 10 steps", () => { feed(Number(input.range.value), 10); remember(); }),
      button("Start over", () => {
        stop();
        values = fromAddress("");
        shown = values.inputs.length;
        draw();
        remember();
      }),
      button("Copy link", copy));
    element.classList.add("playground");
    element.replaceChildren(node("style", {}, STYLE), box, status, buttons,
      node("div", { class: "pg-controls" }, input.label, ...Object.values(sliders).map((s) => s.label)));

    function draw() {
      const inputs = values.inputs.slice(0, shown);
      const states = Object.keys(CELLS).map((name) => [name, unroll(name, inputs, values)]);
      const xs = values.inputs.map((_, i) => i), marks = inputs.map((x) => updates(x, values)).join("");
      const kind = (name) => (PERSISTENT.includes(name) ? "keeps" : "fades");
      const list = [{ name: "input", kind: "given", values: inputs, lines: [-values.threshold, values.threshold] },
        ...states.map(([name, line]) => ({ name, kind: kind(name), values: line,
          updates: PERSISTENT.includes(name) ? marks : "" }))];
      const drawn = lanes(box, xs, list, "the input and the states of the four cells over the steps, and " +
        "each state against the input; the line below has the last values", 84);
      loops(drawn, inputs, states.map(([name, line]) => [kind(name), line]));
      for (const [name, { range, out }] of Object.entries(sliders)) {
        range.value = values[name];
        out.textContent = values[name].toFixed(2);
      }
      input.range.value = inputs[inputs.length - 1];
      input.out.textContent = inputs[inputs.length - 1].toFixed(2);
      choice.value = values.preset;
      if (timer === null) {
        status.textContent = states.map(([name, line]) => `${name} ${line[line.length - 1].toFixed(3)}`).join(", ");
      }
    }

    // Beside the lane of each cell: its state against the input, where hysteresis is a loop.
    function loops({ picture, width, scales }, inputs, states) {
      const most = Math.max(...inputs.map(Math.abs), values.threshold) || 1;
      const x = (v) => width - 38 + (v / most) * 30;
      picture.append(svg("text", { x: width - 38, y: 40, "text-anchor": "middle", class: "faint" }, "state"),
        svg("text", { x: width - 38, y: 54, "text-anchor": "middle", class: "faint" }, "over input"));
      states.forEach(([kind, line], number) => {
        const y = scales[number + 1], top = (number + 1) * LANE + 2;
        const point = (i, h) => `${x(inputs[i]).toFixed(1)},${y(h).toFixed(1)}`;
        const points = line.flatMap((h, i) => [point(i, line[i - 1] ?? h), point(i, h)]);
        const [cx, cy] = points[points.length - 1].split(",");
        picture.append(svg("rect", { x: width - 72, y: top, width: 68, height: 42, class: "edge" }),
          svg("polyline", { points: points.join(" "), class: `line loop ${kind}` }),
          svg("circle", { cx, cy, r: 3, class: "now" }));
      });
    }

    function feed(x, times) {
      stop();
      values = { ...values, preset: "", inputs: [...values.inputs, ...Array(times).fill(snapped(x))].slice(-MOST) };
      shown = values.inputs.length;
      draw();
    }

    function start() {
      if (shown === values.inputs.length) shown = 1;
      const stride = Math.ceil(values.inputs.length / 160);
      player.textContent = "Pause";
      timer = setInterval(() => {
        shown = Math.min(values.inputs.length, shown + stride);
        if (shown === values.inputs.length) stop();
        draw();
      }, 50);
    }

    function stop() {
      clearInterval(timer);
      timer = null;
      player.textContent = "Play";
    }

    function remember() {
      history.replaceState(null, "", toAddress(values));
    }

    async function copy() {
      remember();
      const said = await navigator.clipboard?.writeText(location.href).then(() => "The link is copied.", () => null);
      status.textContent = said ?? "The link is in the address of this page: copy it from there.";
    }

    new ResizeObserver(() => requestAnimationFrame(draw)).observe(element);
    addEventListener("hashchange", () => {
      if (!location.hash.startsWith("#playground&")) return;
      stop();
      values = fromAddress(location.hash);
      shown = values.inputs.length;
      draw();
    });
    draw();
    if (location.hash.startsWith("#playground&")) element.scrollIntoView();
    else if (atOnce && !matchMedia("(prefers-reduced-motion: reduce)").matches) start();
    return {
      picture: () => box.firstChild,
      rows: () => {
        const lines = Object.keys(CELLS).map((name) => unroll(name, values.inputs, values));
        return [["step", "input", ...Object.keys(CELLS)],
          ...values.inputs.map((x, i) => [i, x, ...lines.map((line) => line[i])])];
      },
    };
  }

  return { CELLS, PRESETS, SETTINGS, MOST, unroll, toAddress, fromAddress, playground, node, svg, fitting, lanes };
})();
