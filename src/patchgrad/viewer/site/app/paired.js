"use strict";
/* Two reports on the same tasks: the difference with its interval, and a row a task, from the largest difference on. */

function pairedView(place, runs, given) {
  const reports = runs.flatMap((run, number) => run.reports.map((report, at) => ({ id: `${number}:${at}`, run: number, at, share: report.pass_at_1, title: runs.length > 1 ? `${run.name}, ${report.name}` : report.name })));
  let over = false, found = null, rows = [];
  const state = { one: given.get("one") || "", two: given.get("two") || "", sort: given.get("sort") || "-difference", differing: given.get("differing") || "" };
  if (reports.length < 2) {
    place.replaceChildren(h("h1", {}, "Task by task"), h("p", { class: "muted" }, "Two reports are compared, and there are none yet: a report is written when a policy was evaluated."));
    return { update: () => {}, close: () => {}, keys: {} };
  }
  if (!reports.some(({ id }) => id === state.one)) state.one = reports[0].id;
  if (!reports.some(({ id }) => id === state.two) || state.two === state.one) state.two = reports.findLast(({ id, run }) => id !== state.one && run === 0)?.id || reports.find(({ id }) => id !== state.one).id;

  const selects = ["one", "two"].map((side) => h("select", { id: side, change: (event) => { state[side] = event.target.value; load(); } }, reports.map(({ id, title, share: solved }) => h("option", { value: id }, `${visible(title)} (${share(solved)})`))));
  const differing = h("input", { type: "checkbox", id: "differing", checked: state.differing === "1", change: () => { state.differing = differing.checked ? "1" : ""; draw(); } });
  const said = h("div", { role: "status" }), table = h("div", { class: "wide tasks", role: "region", tabindex: "0", "aria-label": "Tasks" });
  place.replaceChildren(h("h1", {}, "Task by task"), h("div", { class: "filters" }, h("label", { for: "one" }, "From "), selects[0], h("label", { for: "two" }, "to "), selects[1], h("label", { for: "differing" }, differing, " only tasks that differ")), said, table);

  async function load() {
    const [first, second] = [state.one, state.two].map((id) => reports.find((one) => one.id === id));
    selects[0].value = state.one;
    selects[1].value = state.two;
    address();
    if (state.one === state.two) return refused("Choose two reports.");
    let outcomes, told;
    try {
      [told, ...outcomes] = await Promise.all([source.compared(state.one, state.two), source.outcomes(first.run), source.outcomes(second.run)]);
    } catch (error) {
      return refused(error.message);
    }
    if (told.error) return refused(told.error);
    if (over || first.id !== state.one || second.id !== state.two) return undefined;
    found = { told, sides: [first, second].map((report, side) => ({ ...report, ...outcomes[side][report.at] })) };
    const [one, two] = found.sides.map(({ tasks }) => tasks);
    rows = Object.keys(one).map((task) => ({ task, counts: [one[task], two[task]], difference: one[task][1] && two[task][1] ? two[task][0] / two[task][1] - one[task][0] / one[task][1] : null }));
    return draw();
  }

  function refused(why) {
    if (over) return;
    found = null;
    said.replaceChildren(h("p", { class: "bad" }, visible(why)));
    table.replaceChildren();
  }

  function address() {
    history.replaceState(null, "", `#/tasks?${new URLSearchParams(Object.entries(state).filter(([name, value]) => value && !(name === "sort" && value === "-difference")))}`);
  }

  function draw() {
    address();
    if (!found) return;
    const { told, sides } = found, better = rows.filter(({ difference }) => difference > 0).length, worse = rows.filter(({ difference }) => difference < 0).length;
    const points = (value) => (value === null ? "?" : (100 * value).toFixed(1));
    said.replaceChildren(h("p", {}, h("b", {}, visible(told.sentence))),
      h("dl", { class: "facts" }, [["difference", `${points(told.comparison.difference.mean)} points`], ["95 % interval", `${points(told.comparison.difference.low)} to ${points(told.comparison.difference.high)}`], ["p (sign flips)", String(Number(told.comparison.p_value.toPrecision(2)))], ["solved more often", count(better)], ["as often", count(rows.length - better - worse)], ["less often", count(worse)]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
      ...told.caveats.map((one) => h("p", { class: "muted" }, visible(one))),
      ...(told.faults.some(Boolean) ? [h("p", { class: "muted" }, `${told.faults[0]} and ${told.faults[1]} attempts broke: had they gone all against the second, or all for it, the difference would be ${points(told.worst)} or ${points(told.best)} points.`)] : []));
    const [, way, key] = /^(-?)(.*)$/.exec(state.sort), sign = way ? -1 : 1;
    const last = sign * Infinity, part = ([solved, tried]) => (tried ? solved / tried : last);
    const of = { task: ({ task }) => task, one: ({ counts }) => part(counts[0]), two: ({ counts }) => part(counts[1]) }[key] || (({ difference }) => difference ?? last);
    const shown = rows.filter(({ difference }) => !state.differing || difference).sort((a, b) => (of(a) < of(b) ? -sign : of(a) > of(b) ? sign : a.task < b.task ? -1 : 1));
    const titles = { task: "task", one: visible(sides[0].title), two: visible(sides[1].title), difference: "difference, points" };
    table.replaceChildren(h("table", {}, h("thead", {}, h("tr", { class: "head" }, Object.entries(titles).map(([name, title]) => h("th", { scope: "col", "aria-sort": key === name ? (way ? "descending" : "ascending") : "none" },
      h("button", { type: "button", click: () => { state.sort = state.sort === `-${name}` ? name : `-${name}`; draw(); } }, title))))), h("tbody", {}, shown.map(line))));
  }

  function line({ task, counts, difference }) {
    const bar = difference ? h("span", { class: `lean ${difference > 0 ? "more" : "less"}`, "aria-hidden": "true", style: { width: `${Math.abs(difference) * 4}rem` } }) : null;
    return h("tr", {}, h("th", { scope: "row" }, visible(task)), counts.map(([solved, tried], side) => h("td", {}, cell(found.sides[side], task, tried ? `${solved} of ${tried}` : "broke"))),
      h("td", { class: difference > 0 ? "good" : difference < 0 ? "bad" : "muted" }, h("span", { class: "figure" }, difference === null ? "" : `${difference > 0 ? "+" : ""}${(100 * difference).toFixed(0)}`), bar));
  }

  /** How often a task was solved; a link to the attempts where they are in the run. */
  const cell = ({ run, phase }, task, text) => (phase ? h("a", { href: `#/list/${run}?${new URLSearchParams({ phase, task })}` }, text) : text);

  load();
  return { update: () => {}, close: () => { over = true; }, keys: { Escape: () => { location.hash = "#/"; } } };
}
