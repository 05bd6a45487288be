"use strict";
/* All attempts of a run: columns in memory, of which the rows in sight are drawn. Filters and order stand in the address. */

const SHOWN = [
  ["attempt", "attempt", "text"], ["task", "task", "text"], ["phase", "phase", "text"], ["solved", "solved", "flag"], ["reward", "reward", "number"],
  ["stop", "end", "text"], ["failures", "failures", "text"], ["turns", "turns", "number"], ["malformed", "no call", "number"], ["action_tokens", "tokens", "number"],
  ["seconds", "seconds", "number"], ["policy_version", "version", "number"],
];
const FIGURES = new Map(Object.entries({ reward: "reward", turns: "turns", tokens: "action_tokens", seconds: "seconds", version: "policy_version", iteration: "iteration" }));
const SIGNS = { ">=": (one, other) => one >= other, "<=": (one, other) => one <= other, ">": (one, other) => one > other, "<": (one, other) => one < other, "=": (one, other) => one === other };

/** `turns>=8 reward<1`: what figures have to be, as columns with their conditions, and what of the text cannot be read. */
function ranges(text) {
  const found = [];
  const rest = text.replace(/([a-z]+)\s*(>=|<=|>|<|=)\s*(-?\d*\.?\d+)(?=[\s,]|$)/gi, (whole, name, sign, number) => {
    const column = FIGURES.get(name.toLowerCase());
    if (column) found.push([column, (value) => value !== null && SIGNS[sign](value, Number(number))]);
    return column ? "" : whole;
  });
  return { found, rest: rest.replace(/[\s,]+/g, " ").trim() };
}

const HEIGHT = 28; // of a row, in pixels

/** The columns of a run, a chunk after the other; `grown` is called after each. */
class Attempts {
  constructor(run) {
    this.run = run;
    this.count = 0;
    this.columns = {};
    this.chunks = [];
    this.tabled = 0; // of the attempts those that a table has; the others are behind them
    this.names = new Set();
  }

  /** Fetches the chunks whose mark is another one than before: a new table moves those that are behind it by name. */
  async load(marks, grown) {
    const next = this.chunks.slice(0, marks.length), known = next.length;
    let other = known < this.chunks.length;
    for (const [number, mark] of marks.entries()) {
      if (!next[number] || next[number].mark !== mark) {
        next[number] = { ...(await source.chunk(this.run, number)), mark };
        other = true;
      }
      if (!other || number < known - 1) continue; // what stands there changes at once: no attempt is there twice
      this.chunks = [...next];
      this.join();
      grown();
      other = false;
    }
  }

  join() {
    this.tabled = this.chunks.reduce((sum, chunk) => sum + chunk.count, 0);
    this.columns = {};
    for (const name of Object.keys(this.chunks[0].columns)) {
      this.columns[name] = this.chunks.flatMap(({ columns }) => {
        const column = columns[name];
        return Array.isArray(column) ? column : column.index.map((one) => (one === null ? null : Array.isArray(one) ? one.map((inner) => column.values[inner]) : column.values[one]));
      });
    }
    this.names = new Set(this.columns.attempt);
    putLive(this);
  }

  /** Numbers of the rows that fit, in order. `hits` are ids, or null where no text is looked for. */
  chosen({ words, phase, solved, stop, task: at, failure, where, sort }, hits) {
    const { attempt, task, failures } = this.columns;
    const low = words.toLowerCase();
    const rows = [], within = ranges(where).found;
    for (let row = 0; row < this.count; row++) {
      if (phase && this.columns.phase[row] !== phase) continue;
      if (stop && this.columns.stop[row] !== stop) continue;
      if (at && task[row] !== at) continue;
      if (failure && !failures[row].includes(failure)) continue;
      if (solved && String(this.columns.solved[row]) !== solved) continue;
      if (!within.every(([column, fits]) => fits(this.columns[column][row]))) continue;
      if (hits ? !hits.has(attempt[row]) : low && !attempt[row].toLowerCase().includes(low) && !task[row].toLowerCase().includes(low)) continue;
      rows.push(row);
    }
    if (sort) {
      const name = sort.replace(/^-/, ""), way = sort.startsWith("-") ? -1 : 1;
      const order = (a, b) => (a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -way : way);
      const column = name === "failures" ? failures.map((kinds) => kinds.join(", ") || null) : this.columns[name];
      if (column) rows.sort((a, b) => order(column[a], column[b]));
    }
    return rows;
  }
}

const kept = new Map(); // Attempts by run
function attemptsOf(run) {
  if (!kept.has(run)) kept.set(run, new Attempts(run));
  return kept.get(run);
}

/** Attempts that were marked to be compared, as `run:id`; the second opens the page of both. */
const marked = [];
function mark(run, id) {
  const one = `${run}:${id}`, at = marked.indexOf(one);
  if (at >= 0) marked.splice(at, 1);
  else marked.push(one);
  if (marked.length < 2) return;
  location.hash = `#/pair?${new URLSearchParams({ one: marked[0], two: marked[1] })}`;
  marked.length = 0;
}

/** The view: draws itself into `place`, and has `update` for when the run has grown. */
function listView(place, run, about, given) {
  const data = attemptsOf(run);
  const filter = Object.fromEntries(["words", "phase", "solved", "stop", "failure", "where", "task", "sort", "text"].map((name) => [name, given.get(name) || ""]));
  let rows = [], hits = null, current = 0, over = false, read = []; // ids of the first row in sight, and of the current one

  const words = h("input", { type: "search", id: "words", value: filter.words, placeholder: "attempt or task  ( / )", "aria-label": "Search", input: () => set("words", words.value) });
  const inText = h("input", { type: "checkbox", id: "text", checked: filter.text === "1", change: () => set("text", inText.checked ? "1" : "") });
  const where = h("input", { type: "search", id: "where", value: filter.where, placeholder: "turns>=8 reward<1", "aria-label": "Ranges of figures, such as turns>=8 reward<1", "aria-describedby": "unread", input: () => set("where", where.value) });
  const unread = h("span", { class: "bad", id: "unread", role: "status" });
  const selects = { phase: choice("phase"), stop: choice("stop"), failure: choice("failure"), solved: choice("solved") };
  const only = h("button", { type: "button", hidden: !filter.task, title: "show all tasks", click: () => { only.hidden = true; set("task", ""); } }, `task ${visible(filter.task)} ✕`);
  const total = h("span", { class: "muted", role: "status" });
  const head = h("div", { class: "row head", role: "row" }, SHOWN.map(([name, title, kind]) =>
    h("div", { role: "columnheader", class: `cell ${name} ${kind}`, "data-name": name }, h("button", { type: "button", click: () => set("sort", filter.sort === name ? `-${name}` : filter.sort === `-${name}` ? "" : name) }, title))));
  const body = h("div", { class: "body", role: "presentation" });
  const view = h("div", { class: "scroll", role: "rowgroup", tabindex: "0", scroll: draw, keydown: moved }, body);
  const table = h("div", { class: "table", role: "table", "aria-label": "Attempts" }, h("div", { role: "rowgroup" }, head), view);
  place.replaceChildren(h("h1", {}, visible(about.name)),
    h("div", { class: "filters" }, words, h("label", { for: "text" }, inText, " in all text"), ...Object.values(selects), where, only, total, unread), table);

  function choice(name) {
    return h("select", { "aria-label": name, change: (event) => set(name, event.target.value) }, h("option", { value: "" }, `any ${name === "stop" ? "end" : name}`));
  }

  function set(name, value) {
    filter[name] = value;
    const next = new URLSearchParams(Object.entries(filter).filter(([, one]) => one));
    history.replaceState(null, "", `#/list/${run}?${next}`);
    current = 0;
    read = [];
    look();
  }

  let asked = 0;
  async function look() {
    const number = ++asked;
    if (filter.text && filter.words) {
      total.textContent = "searching …";
      const found = new Set(await source.search(run, filter.words));
      if (number !== asked || over) return;
      hits = found;
    } else hits = null;
    fill();
  }

  function fill() {
    if (over || (!data.count && !rows.length)) return;
    for (const [name, select] of Object.entries(selects)) {
      const there = [...new Set(name === "failure" ? data.columns.failures.flat() : data.columns[name].map(String))].sort();
      if ([...select.options].slice(1).map((one) => one.value).join("\n") !== there.join("\n")) {
        select.replaceChildren(select.options[0], ...there.map((one) => h("option", { value: one }, name === "solved" ? ({ true: "solved", null: "not ended" }[one] || "not solved") : one)));
      }
      select.value = filter[name];
    }
    rows = data.chosen(filter, hits);
    stay();
    const { rest } = ranges(filter.where);
    where.setAttribute("aria-invalid", String(Boolean(rest)));
    unread.textContent = rest ? `“${visible(rest)}” is no range: write one as turns>=8, with >=, <=, >, < or =, of ${[...FIGURES.keys()].join(", ")}.` : "";
    total.textContent = `${count(rows.length)} of ${count(data.count)} attempts`;
    for (const cell of head.children) {
      const name = cell.dataset.name;
      cell.setAttribute("aria-sort", filter.sort === name ? "ascending" : filter.sort === `-${name}` ? "descending" : "none");
    }
    table.setAttribute("aria-rowcount", rows.length + 1);
    body.style.height = `${rows.length * HEIGHT}px`;
    draw();
  }

  /** Where rows came before the one that is read, it stays where it is. */
  function stay() {
    const [first, here] = read.map((id) => rows.findIndex((row) => data.columns.attempt[row] === id));
    if (here > 0) current = here;
    const way = first - Math.floor(view.scrollTop / HEIGHT);
    if (!(first > 0 && way)) return;
    body.style.height = `${rows.length * HEIGHT}px`;
    view.scrollTop += way * HEIGHT;
  }

  function draw() {
    read = [Math.floor(view.scrollTop / HEIGHT), current].map((place) => data.columns.attempt?.[rows[place]]);
    const first = Math.max(0, Math.floor(view.scrollTop / HEIGHT) - 10);
    const last = Math.min(rows.length, first + Math.ceil(view.clientHeight / HEIGHT) + 20);
    body.replaceChildren(...rows.slice(first, last).map((row, place) => line(row, first + place)));
  }

  function line(row, place) {
    const id = data.columns.attempt[row];
    const cells = SHOWN.map(([name, , kind]) => {
      const value = data.columns[name][row];
      const text = name === "seconds" ? seconds(value) : name === "failures" ? visible((value ?? []).join(", ")) : name === "solved" ? outcomeOf(value, data.columns.fault[row], data.columns.stop[row]) : name === "reward" && value === null ? rewardOf(value, data.columns.stop[row], liveOf(run).get(id)?.kept) : value === null ? "" : typeof value === "number" ? (Number.isInteger(value) ? count(value) : value.toPrecision(3)) : visible(value);
      const content = name === "attempt" ? h("a", { href: `#/attempt/${run}/${encodeURIComponent(id)}`, tabindex: "-1" }, visible(id)) : text;
      return h("div", { role: "cell", class: `cell ${name} ${kind} ${name === "solved" && value !== null ? (value ? "good" : "bad") : ""}`, title: kind === "text" ? visible(name === "failures" ? (value ?? []).join(", ") : value ?? "") : undefined }, content);
    });
    return h("div", { role: "row", class: `row${place === current ? " current" : ""}${marked.includes(`${run}:${id}`) ? " marked" : ""}`, "aria-rowindex": place + 2, style: { top: `${place * HEIGHT}px` }, click: () => open(place) }, cells);
  }

  function open(place) {
    if (rows[place] !== undefined) location.hash = `#/attempt/${run}/${encodeURIComponent(data.columns.attempt[rows[place]])}`;
  }

  function moved(event) {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Enter") open(current);
    if (event.key === "x" && rows[current] !== undefined) {
      mark(run, data.columns.attempt[rows[current]]);
      draw();
    }
    if (step === undefined) return;
    event.preventDefault();
    current = Math.min(Math.max(0, current + step), Math.max(0, rows.length - 1));
    const top = current * HEIGHT;
    if (top < view.scrollTop) view.scrollTop = top;
    if (top + HEIGHT > view.scrollTop + view.clientHeight) view.scrollTop = top + HEIGHT - view.clientHeight;
    draw();
  }

  const update = (now) => data.load(now.chunks, fill);
  /** Which rows there are, and in which order, is told anew where a column changed by which they are chosen; else those in sight are drawn. */
  function live(changes) {
    if (!Object.keys(changes).length) return;
    const asked = ["attempt", "task", ...Object.keys(selects), filter.sort.replace(/^-/, ""), ...ranges(filter.where).found.map(([column]) => column)];
    const other = putLive(data);
    if (asked.some((name) => other.has(name))) fill();
    else draw();
  }

  if (!data.tabled) putLive(data);
  update(about).then(look).catch(failed);
  view.focus({ preventScroll: true });
  return { update, lived: live, close: () => { over = true; }, keys: { "/": () => words.focus() } };
}
