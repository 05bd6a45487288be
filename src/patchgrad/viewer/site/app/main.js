"use strict";
/* Which view is shown: the address says it. Keys, and the tip about the token under the pointer. */

const main = document.getElementById("main");
let view = null, overview = null;

function failed(error) {
  main.replaceChildren(h("h1", {}, "That cannot be shown"), h("p", { class: "bad", role: "alert" }, visible(error.message)), h("p", {}, h("a", { href: "#/" }, "the report")));
}

/* What each run is at, by its files: told beside the view of the run, or of all runs. The seconds go on by themselves. */
let at = [], told_at = 0;
const lines = []; // of the runs: the elements stay, so that a link in them keeps its focus
function tell() {
  if (!overview) return;
  const own = /^#\/(list|attempt)\/(\d+)/.exec(location.hash), shown = [];
  at.forEach((one, number) => {
    if (!one || (own && number !== Number(own[2]))) return;
    const line = (lines[number] = lines[number] || { text: h("span"), link: h("a", { href: `#/list/${number}?solved=null` }), name: h("b") });
    const age = one.age === null ? "" : one.then ? ` When this page was written, its newest file was ${old(one.age)} old.` : ` Its newest file is ${old(one.age + (Date.now() - told_at) / 1000)} old.`;
    const running = [...liveOf(number).values()].filter(({ solved }) => solved === null).length;
    line.name.textContent = overview.runs.length > 1 ? `${visible(overview.runs[number].name)} ` : "";
    line.text.textContent = visible([one.said, one.doing].filter(Boolean).join(" ") + age);
    line.link.textContent = running ? ` Show ${running === 1 ? "the attempt" : `the ${count(running)} attempts`} that ${running === 1 ? "has" : "have"} not ended` : "";
    line.link.hidden = !running;
    line.box = line.box || h("p", {}, line.name, line.text, " ", line.link);
    shown.push(line.box);
  });
  const place = document.getElementById("now");
  if (shown.length !== place.children.length || shown.some((box, row) => place.children[row] !== box)) place.replaceChildren(...shown);
}
const old = (number) => (number < 120 ? `${Math.floor(number)} s` : number < 7200 ? `${Math.floor(number / 60)} min` : number < 172800 ? `${Math.floor(number / 3600)} h` : `${Math.floor(number / 86400)} days`);
setInterval(tell, 1000);

async function route() {
  if (view) view.close();
  view = null;
  try {
    overview = overview || (await source.overview());
  } catch (error) {
    failed(error);
    return;
  }
  tell();
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const [, name, run, ...rest] = path.split("/");
  const about = overview.runs[Number(run)], given = new URLSearchParams(query || "");
  const alone = overview.runs.length === 1, current = (on) => (on ? "page" : undefined);
  document.getElementById("nav").replaceChildren(h("a", { href: "#/", "aria-current": current(!name || name === "report") }, "report"), ...there(alone ? null : h("span", { class: "muted" }, "attempts of"),
    overview.runs.map((one, number) => h("a", { href: `#/list/${number}`, "aria-current": current(about === one && name !== "report") }, alone ? "attempts" : visible(one.name)))));
  document.getElementById("views").replaceChildren(...["curves", "tasks"].map((one) => h("a", { href: `#/${one}`, "aria-current": current(name === one) }, one === "tasks" ? "task by task" : one)));
  if (name === "curves") view = curvesView(main, overview.runs, given);
  else if (name === "tasks") view = pairedView(main, overview.runs, given);
  else if (name === "attempt" && about) view = attemptView(main, Number(run), about, decodeURIComponent(rest.join("/")), given);
  else if (name === "pair") view = pairView(main, ["one", "two"].map((side) => ({ run: Number((given.get(side) || "").split(":")[0]), id: (given.get(side) || "").split(":").slice(1).join(":") })));
  else if (name === "list" && about) view = listView(main, Number(run), about, given);
  else view = reportView(main, overview.runs, name === "report" && about ? Number(run) : alone ? 0 : null);
}

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (typing && event.key === "Escape") event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !view) return;
  const act = view.keys[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

const tip = h("div", { id: "tip", role: "tooltip", hidden: true });
document.body.append(tip);
document.addEventListener("pointerover", (event) => {
  const token = event.target.closest ? event.target.closest(".token") : null;
  tip.hidden = !token;
  if (!token) return;
  const { id, logprob, version, read } = tokenFacts.get(token);
  tip.textContent = `id ${id}   log-probability ${logprob}   probability ${Math.exp(logprob).toFixed(4)}   version ${version}`;
  if (read) tip.textContent += `\nthe trainer: log-probability ${read.logprobs}   ${read.old === null ? "" : `ratio ${Math.exp(read.logprobs - read.old).toFixed(4)}   `}entropy ${read.entropies}   advantage ${read.advantages}   weight ${read.weights}`;
  const box = token.getBoundingClientRect();
  tip.style.left = `${Math.min(box.left, window.innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${box.bottom + 4}px`;
});

source.watch(async () => {
  try {
    overview = await source.overview();
    document.getElementById("state").textContent = `new at ${new Date().toLocaleTimeString()}`;
    const about = overview.runs[Number(location.hash.split("?")[0].split("/")[2]) || 0];
    if (view && about) await view.update(about);
  } catch (error) {
    document.getElementById("state").textContent = "the server does not answer";
  }
}, (now) => {
  [at, told_at] = [now, Date.now()];
  tell();
}, (told, first) => {
  const changes = lived(told, first), run = /^#\/(list|attempt)\/(\d+)/.exec(location.hash);
  if (view && view.lived && run) view.lived(changes[Number(run[2])] || {});
});
window.addEventListener("hashchange", route);
route();
