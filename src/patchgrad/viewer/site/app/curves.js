"use strict";
/* Figures of runs as curves. The plot is a slider: arrows, or the pointer, go from point to point, and what stands there is told below it. */

const AXES = { iteration: "iterations", tokens: "sampled tokens", minutes: "minutes of iterations" };
const PLOT = { height: 340, left: 56, right: 16, top: 12, bottom: 40 };
const KINDS = 8; // of lines, by colour and dashes

function curvesView(place, runs, given) {
  let wanted = given.has("runs") ? new Set(given.get("runs").split(",").map(Number)) : null, usual = new Set();
  let metric = given.get("metric") || "", axis = AXES[given.get("axis")] ? given.get("axis") : "iteration", at = -1, over = false, told = [], stops = [];

  const choice = h("select", { id: "metric", change: () => { metric = choice.value; draw(); } });
  const along = h("select", { id: "axis", change: () => { axis = along.value; at = -1; draw(); } }, Object.entries(AXES).map(([name, title]) => h("option", { value: name }, title)));
  const legend = h("fieldset", { class: "legend" }, h("legend", {}, "Runs"));
  const heading = h("h2", { id: "curve" });
  const plot = h("div", { class: "plot", role: "slider", tabindex: "0", "aria-label": "Point of the curves", "aria-valuemin": "0", keydown: moved, pointermove: pointed, pointerleave: () => go(-1), blur: () => go(-1) });
  const said = h("div", { class: "said" });
  const figures = h("div", { class: "wide", role: "region", tabindex: "0", "aria-label": "Figures" });
  const table = h("details", { toggle: () => fill() }, h("summary", {}, "The same figures as a table"), figures);
  place.replaceChildren(h("h1", {}, "Curves"), h("div", { class: "filters" }, h("label", { for: "metric" }, "Figure "), choice, h("label", { for: "axis" }, "over "), along), legend, heading, plot, said, table);
  const size = new ResizeObserver(() => draw());

  async function load() {
    const [seeds, ...found] = await Promise.all([source.seeds(), ...runs.map((_, number) => source.curves(number))]);
    if (over) return;
    told = [...found, ...seeds];
    const averaged = new Set(seeds.flatMap((one) => one.runs)); // a run is drawn in the mean over its recipe's seeds, until it is chosen
    usual = new Set(told.map((_, number) => number).filter((number) => !averaged.has(number)));
    wanted = wanted || new Set(usual);
    names();
    draw();
  }

  /** What can be chosen: each figure that a run has, and the axes that every one of them knows. */
  function names() {
    const titles = new Map(told.flatMap((one) => Object.entries(one.metrics).map(([name, { title }]) => [name, title])));
    if (!titles.size) {
      heading.textContent = "Nothing was measured yet.";
      return;
    }
    if (!titles.has(metric)) metric = [...titles.keys()].find((name) => told.some((one) => one.metrics[name] && one.metrics[name].values.length > 1)) || [...titles.keys()][0];
    choice.replaceChildren(...[...titles].map(([name, title]) => h("option", { value: name }, visible(title))));
    for (const option of along.options) option.disabled = told.every((one) => !one.axes[option.value]);
    if (along.querySelector(`[value=${axis}]`).disabled) axis = "iteration";
    legend.replaceChildren(legend.firstChild, ...told.map((one, number) => h("label", {}, h("input", { type: "checkbox", value: number, checked: wanted.has(number), change: (event) => toggle(number, event.target.checked) }),
      s("svg", { width: 28, height: 10, "aria-hidden": "true" }, s("line", { class: `line k${number % KINDS}`, x1: 1, x2: 27, y1: 5, y2: 5 })), visible(one.name))));
    legend.hidden = told.length < 2;
    size.observe(plot);
  }

  function toggle(number, on) {
    if (on) wanted.add(number);
    else wanted.delete(number);
    draw();
  }

  /** Lines of the runs that were chosen: points with their place on the axis. */
  function lines() {
    return told.flatMap((one, number) => {
      const found = one.metrics[metric], places = one.axes[axis];
      if (!found || !places || !wanted.has(number)) return [];
      const points = found.values.map((value, row) => ({ x: places[found.at[row]], value, low: found.low[row] ?? null, high: found.high[row] ?? null, name: found.names[row] || one.points[found.at[row]] }));
      return [{ number, name: one.name, share: found.share, band: found.band, title: found.title, points, joined: found.names.length > 0 }];
    });
  }

  function draw() {
    if (over || !told.length || !choice.options.length) return;
    choice.value = metric;
    along.value = axis;
    const shown = lines();
    const next = new URLSearchParams({ ...(wanted.size !== usual.size || [...wanted].some((one) => !usual.has(one)) ? { runs: [...wanted].sort((a, b) => a - b).join(",") } : {}), metric, axis });
    history.replaceState(null, "", `#/curves?${next}`);
    stops = [...new Set(shown.flatMap(({ points }) => points.filter(({ value }) => value !== null).map(({ x }) => x)))].sort((a, b) => a - b);
    plot.setAttribute("aria-valuemax", Math.max(0, stops.length - 1));
    const bands = [...new Set(shown.map(({ band }) => band).filter(Boolean))];
    heading.textContent = visible(choice.selectedOptions[0].textContent) + (bands.length ? ` (band: ${bands.join(", of means ")})` : "");
    plot.replaceChildren(stops.length ? drawing(shown, plot.clientWidth) : h("p", { class: "muted" }, "None of the runs that are chosen has this figure over this axis."));
    go(Math.min(at, stops.length - 1));
    fill();
  }

  const number = (value, share_) => (value === null ? "" : share_ ? share(value) : Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4))));
  const between = (point, share_) => (point.low === null || point.high === null ? "" : ` (${number(point.low, share_)} to ${number(point.high, share_)})`);
  const position = (x) => (axis === "minutes" ? x.toFixed(1) : count(x));

  function drawing(shown, width) {
    const all = shown.flatMap(({ points }) => points.filter(({ value }) => value !== null)), limit = shown[0].share;
    const values = all.flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]).map((value) => (limit ? Math.min(1, Math.max(0, value)) : value));
    const [floor, top, step] = scale(Math.min(...values, limit || Math.min(...values) >= 0 ? 0 : Infinity), Math.max(...values));
    const end = stops.at(-1) || 1, stride = scale(0, end, width < 500 ? 3 : 6)[2];
    const right = width - PLOT.right, low = PLOT.height - PLOT.bottom;
    const x = (value) => PLOT.left + ((right - PLOT.left) * value) / end;
    const y = (value) => low - ((low - PLOT.top) * (Math.min(top, Math.max(floor, value)) - floor)) / (top - floor);
    const parts = [];
    for (let tick = floor; tick <= top + step / 2; tick += step) {
      parts.push(s("line", { class: "grid", x1: PLOT.left, x2: right, y1: y(tick), y2: y(tick) }), s("text", { class: "tick", x: PLOT.left - 6, y: y(tick) + 4, "text-anchor": "end" }, limit ? `${short(100 * tick)} %` : short(tick)));
    }
    for (let tick = 0; tick <= end * (1 + 1e-9); tick += stride) parts.push(s("text", { class: "tick", x: x(tick), y: low + 16, "text-anchor": "middle" }, short(tick)));
    parts.push(s("text", { class: "tick", x: (PLOT.left + right) / 2, y: PLOT.height - 6, "text-anchor": "middle" }, AXES[axis]));
    for (const one of shown) parts.push(...line(one, x, y));
    const mark = s("line", { class: "cursor", id: "cursor", x1: 0, x2: 0, y1: PLOT.top, y2: low, visibility: "hidden" });
    const made = s("svg", { width, height: PLOT.height, "aria-hidden": "true" }, ...parts, mark);
    made.place = x;
    return made;
  }

  /** A run of measured points is one path, so that a gap stays a gap. Reports, which are seldom, are joined, and have bars as intervals. */
  function line({ number: kind, points, joined }, x, y) {
    const paths = [[]], parts = [];
    for (const point of points) {
      if (point.value !== null) paths.at(-1).push(point);
      else if (paths.at(-1).length) paths.push([]);
    }
    const path = (there, of) => there.map((point) => `${x(point.x).toFixed(1)},${y(of(point)).toFixed(1)}`);
    for (const there of paths.filter((one) => one.length)) {
      const known = there.filter(({ low, high }) => low !== null && high !== null);
      if (joined || known.length === 1) parts.push(...known.map((point) => s("line", { class: `whisker k${kind % KINDS}`, x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high) })));
      else if (known.length) parts.push(s("polygon", { class: `band k${kind % KINDS}`, points: [...path(known, ({ high }) => high), ...path(known, ({ low }) => low).reverse()].join(" ") }));
      parts.push(s("polyline", { class: `line k${kind % KINDS}`, points: path(there, ({ value }) => value).join(" ") }));
      if (joined || there.length < 60) parts.push(...there.map((point) => s("circle", { class: `dot k${kind % KINDS}`, cx: x(point.x), cy: y(point.value), r: joined ? 4 : 2.5 })));
    }
    return parts;
  }

  /** Tells what stands at a point: -1 is none. */
  function go(next) {
    at = next;
    const mark = plot.querySelector("#cursor"), x = stops[at];
    plot.setAttribute("aria-valuenow", Math.max(0, at));
    if (!mark) return said.replaceChildren();
    mark.setAttribute("visibility", x === undefined ? "hidden" : "visible");
    if (x === undefined) {
      plot.setAttribute("aria-valuetext", "no point");
      return said.replaceChildren(h("p", { class: "muted" }, "The pointer, or the arrows of the keyboard, tell the figures at a point."));
    }
    for (const end of ["x1", "x2"]) mark.setAttribute(end, plot.firstChild.place(x));
    const there = lines().flatMap((one) => one.points.filter((point) => point.x === x && point.value !== null).map((point) => [one, point]));
    plot.setAttribute("aria-valuetext", [`${position(x)} ${AXES[axis]}`, ...there.map(([one, point]) => `${one.name}, ${point.name}: ${number(point.value, one.share)}${between(point, one.share)}`)].map(visible).join("; "));
    return said.replaceChildren(h("p", { class: "muted" }, `${position(x)} ${AXES[axis]}`), ...there.map(([one, point]) => h("p", {},
      s("svg", { width: 28, height: 10, "aria-hidden": "true" }, s("line", { class: `line k${one.number % KINDS}`, x1: 1, x2: 27, y1: 5, y2: 5 })), ` ${visible(one.name)}, ${visible(point.name)}: `, h("b", {}, number(point.value, one.share)), between(point, one.share))));
  }

  function moved(event) {
    const last = stops.length - 1, next = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, PageUp: at + 10, PageDown: at - 10, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    go(Math.min(last, Math.max(0, next)));
  }

  function pointed(event) {
    const drawn = plot.firstChild;
    if (!stops.length || !drawn.place) return;
    const x = event.clientX - plot.getBoundingClientRect().left;
    let near = 0;
    for (let stop = 1; stop < stops.length; stop++) if (Math.abs(drawn.place(stops[stop]) - x) < Math.abs(drawn.place(stops[near]) - x)) near = stop;
    if (near !== at) go(near);
  }

  /** The table, where it is open: a row a point, and each run's figure with its band. */
  function fill() {
    if (!table.open) return;
    const shown = lines(), rows = stops.map((x) => [x, shown.map((one) => one.points.filter((point) => point.x === x && point.value !== null))]);
    figures.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, [AXES[axis], ...shown.flatMap(({ name }) => [visible(name), "low", "high"])].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, rows.map(([x, found]) => h("tr", {}, h("th", { scope: "row" }, position(x)), found.flatMap((points, place) => ["value", "low", "high"].map((key) => h("td", {}, points.map((point) => number(point[key], shown[place].share)).join(", ")))))))));
  }

  load().catch(failed);
  return { update: () => load().catch(failed), close: () => { over = true; size.disconnect(); }, keys: { Escape: () => { location.hash = "#/"; } } };
}

/** Round ends and the step of an axis: `scale(0, 0.37)` is from 0 to 0.4 in steps of 0.1. */
function scale(low, high, steps = 4) {
  const span = high - low || Math.abs(high) || 1, unit = 10 ** Math.floor(Math.log10(span / steps));
  const step = [1, 2, 2.5, 5, 10].map((factor) => unit * factor).find((one) => one >= (span / steps) * (1 - 1e-9));
  const floor = Math.floor(low / step + 1e-9) * step;
  return [floor, Math.max(floor + step, Math.ceil(high / step - 1e-9) * step), step];
}

/** A number on an axis: 1,200,000 is 1.2M. */
const short = (value) => (Math.abs(value) >= 1e6 ? `${Number((value / 1e6).toPrecision(3))}M` : Math.abs(value) >= 1e4 ? `${Number((value / 1e3).toPrecision(3))}k` : String(Number(value.toPrecision(3))));
