"use strict";
/* The report: of one run, or of several side by side where `number` is null. It has the looks of report.html, which nothing else of the page has. */

function reportView(place, runs, number) {
  let over = false;
  const link = h("link", { rel: "stylesheet", href: "report.css" }), dressed = new Promise((done) => { link.onload = link.onerror = done; });
  const box = h("article", { class: "report", "aria-label": "Report" }), body = h("div", {}), root = box.attachShadow({ mode: "open" });
  root.append(link, body);
  const ways = (one, at) => h("li", {}, `${visible(one.name)}: `, h("a", { href: `#/report/${at}`, "aria-current": at === number ? "page" : undefined }, "report"), ", ", h("a", { href: `#/list/${at}` }, "attempts"));
  place.replaceChildren(...there(runs.length > 1 ? h("ul", { class: "ways", "aria-label": "Runs" }, runs.map(ways)) : null, box));

  async function load() {
    const told = await (number === null ? source.comparison() : source.report(number));
    await dressed;
    if (over) return;
    const open = [...body.querySelectorAll("details")].map((one) => one.open);
    body.replaceChildren(...told.refused.map((why) => h("p", { class: "bad" }, visible(why))), ...told.elements.map((one) => made(one)),
      ...(told.read.length ? [h("h2", {}, told.heading), h("ul", {}, told.read.map(attempt))] : []), ...told.setting.map((one) => made(one)));
    body.querySelectorAll("details").forEach((one, at) => { one.open = open[at] || false; });
    if (!told.elements.length) body.append(h("h1", {}, "Nothing can be compared"));
    for (const wide of body.querySelectorAll(".wide")) for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", "Table"]]) wide.setAttribute(name, value);
  }

  const attempt = ({ heading, attempt: id, task, turns, stop }) => h("li", {}, `${heading}: `, h("a", { href: `#/attempt/${number}/${encodeURIComponent(id)}` }, visible(id)), ` · ${visible(task)} · ${counted(turns, "turn")} · ${visible(stop)}`);

  load().catch(failed);
  return { update: () => load().catch(failed), close: () => { over = true; }, keys: {} };
}

const DRAWN = new Set(["svg", "line", "circle", "polyline", "polygon", "text"]);

/** An element of a report, which `summary.py` tells as its name, its attributes and what is in it. */
function made(told, inside) {
  if (typeof told === "string") return visible(told);
  const [name, { style, ...attributes }, ...children] = told, drawn = DRAWN.has(name) || (name === "title" && inside);
  const one = (drawn ? s : h)(name, attributes, children.map((child) => made(child, drawn)));
  if (style) one.style.cssText = style; // an attribute would be a style of the page's text, which its policy refuses
  return one;
}
