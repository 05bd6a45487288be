"use strict";
/* One attempt: its turns with each token that was drawn, what the sandbox answered, and what the tests said. */

/* What tokens are coloured by, and what stands at the two ends of its scale; what `asks` needs an update that trained the attempt. */
const COLOURS = {
  none: { title: "no colours" },
  probability: { title: "probability", ends: ["unlikely", "likely"] },
  version: { title: "version of the weights" },
  mask: { title: "what was trained", asks: true, ends: ["not trained", "trained"] },
  advantage: { title: "advantage", asks: true, ends: ["below 0", "above 0"] },
  entropy: { title: "entropy", asks: true, ends: ["undecided", "sure"] },
  ratio: { title: "importance ratio", asks: true, ends: ["less likely than when sampled", "more likely"] },
};
const ENTROPIES = [0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1, 1.5, 2.5]; // nats, between ten colours
const ADVANTAGES = [0, 0.25, 0.5, 1], RATIOS = [0.01, 0.05, 0.2, 0.5]; // between no colour and four on each side; of ratios the logarithm

const above = (bounds, value) => bounds.filter((bound) => value > bound).length;
const sided = (bounds, value) => `${value < 0 ? "m" : "p"}${above(bounds, Math.abs(value))}`;
/** An update's figures of one token: a number stands for all tokens of a turn, and "sampled" for what the sampler said. */
const readAt = (trained, place, sampled) => {
  const at = (list) => (Array.isArray(list) ? list[place] : list);
  return { logprobs: trained.logprobs[place], entropies: trained.entropies[place], advantages: at(trained.advantages), weights: at(trained.weights), old: trained.old === "sampled" ? sampled : at(trained.old) };
};
const tokenFacts = new WeakMap(); // what the tip tells of a token

const SHOWN_FORKS = 100; // of one attempt

function attemptView(place, run, about, id, given) {
  let over = false, colour = given.get("colour") || "probability", turn = Number(given.get("turn")) || 0, data = null, asking = null;
  let updates = [], update = null, versions = [];
  const filled = new Map(), boxes = []; // the tokens of turns that stand in the page, by turn; the elements of all turns
  const parts = {}; // of the page, by name: what is otherwise when the attempt has gone on
  place.replaceChildren(h("p", { class: "muted", role: "status" }, "reading …"));
  const list = attemptsOf(run);
  source.attempt(run, id).then(show).then(() => list.tabled || list.load(about.chunks, () => {})).then(() => !over && put("others", others())).catch(failed);

  function show(found) {
    if (over) return;
    take(found);
    const select = h("select", { id: "colour", change: () => paint(select.value) });
    const turns = h("div", { id: "turns", "data-colour": colour });
    place.replaceChildren(...there(
      h("p", {}, h("a", { href: `#/list/${run}` }, "← all attempts"), " ", h("span", { class: "muted" }, visible(about.name))),
      h("h1", {}, visible(data.id)),
      ...["live", "facts", "relatives", "others", "issue"].map((name) => put(name, null)),
      played(),
      h("div", { class: "bar" }, h("label", { for: "colour" }, "Tokens coloured by "), select, put("trained", null), h("span", { class: "scale", "aria-hidden": "true" })),
      turns,
      ...["verdict", "patch"].map((name) => put(name, null))));
    draw(0, null);
    if (turn) go(turn);
  }

  /** What is known of the attempt: the turns of `found` are those after the first ones that it leaves as they are. */
  function take(found) {
    const before = data ? data.turns.slice(0, found.from || 0) : [];
    data = { ...found, turns: [...before, ...found.turns] };
    versions = [...new Set(data.turns.flatMap((one) => [one.version, ...one.spans.map(([version]) => version)]))].sort((a, b) => a - b);
    updates = [...new Map(data.turns.flatMap((one) => one.trained).map((one) => [one.update, one.version])).entries()].sort(([one], [other]) => one - other);
    update = updates.some(([number]) => number === Number(given.get("update") ?? NaN)) ? Number(given.get("update")) : updates.length ? updates.at(-1)[0] : null;
    if (!COLOURS[colour] || (COLOURS[colour].asks && update === null)) colour = "probability";
  }

  /** Draws the turns from this place on, and the parts that are otherwise than `before`. */
  function draw(from, before) {
    const turns = document.getElementById("turns"), select = document.getElementById("colour");
    for (const box of boxes.splice(data.turns.length)) box.remove();
    for (let number = from; number < data.turns.length; number++) {
      const box = turnOf(data.turns[number]);
      if (boxes[number]) boxes[number].replaceWith(box);
      else turns.append(box);
      boxes[number] = box;
    }
    const other = (...names) => !before || names.some((name) => JSON.stringify(data[name]) !== JSON.stringify(before[name]));
    put("live", data.live ? h("p", { class: "muted" }, data.stop === "interrupted" ? "It has not ended, and the process that made it is gone: it goes on where the run does." : data.stop === "not ended" ? "It has not ended, and its run does not tell whether it goes on. Turns appear here as they are made." : data.live === "running" ? "It has not ended: its turns appear here as they are made." : !data.kept ? "It has ended. It is not kept in a table: of policies that are measured within a phase the figures alone are." : "It has ended; its reward is told when the attempts of its iteration are written to a table.") : null);
    put("facts", facts());
    if (other("instruction")) put("issue", h("details", { open: true }, h("summary", {}, "The issue"), told(data.instruction)));
    if (!before || data.live !== before.live) {
      relatives();
      put("trained", trainedBy());
      put("verdict", verdict());
      put("patch", h("details", { open: parts.patch.open }, h("summary", {}, data.live === "running" ? "The patch" : `The patch (${count(data.submission.split("\n").length - (data.submission ? 1 : 0))} lines)`), data.live === "running" ? h("p", { class: "muted" }, "It is made when the attempt has ended.") : patch(data.submission)));
      select.replaceChildren(...Object.entries(COLOURS).map(([name, { title, asks }]) => h("option", { value: name, disabled: asks && update === null }, title)));
      select.value = colour;
      paint(colour);
    }
    select.parentElement.hidden = !data.turns.some((one) => one.ids.length);
  }

  /** Puts a part of the page in the place of what it was; nothing is an element that nobody sees. */
  function put(name, made) {
    const next = made || h("span", { hidden: true });
    if (parts[name]) parts[name].replaceWith(next);
    parts[name] = next;
    return next;
  }

  /** The attempt has gone on: asks for what is new, once at a time, and leaves what is read where it is. */
  function lived(changes) {
    if (!data || !data.live || !(id in changes)) return;
    const row = changes[id];
    asking = (asking || Promise.resolve()).then(() => source.attempt(run, id, row && data.turns.length ? data.turns.at(-1).address : "")).then((found) => over || grown(found)).catch((error) => over || put("live", h("p", { class: "bad", role: "alert" }, visible(error.message))));
  }

  function grown(found) {
    const before = data, same = (one, other) => other && ["text", "observation", "failure", "version"].every((name) => one[name] === other[name]) && one.ids.length === other.ids.length;
    const last = before.turns.length;
    take(found);
    let from = found.from || 0;
    while (!found.from && from < last && data.turns[from] && same(data.turns[from], before.turns[from])) from++; // all of it came, and most stands here
    for (const one of data.turns.slice(0, from)) {
      const [shown, tokens] = [before.turns[one.number - 1], filled.get(one.number)];
      if (shown !== one && tokens) fill(tokens, one);
    }
    still(() => draw(from, before));
  }

  /** The attempt as a terminal shows it, made when it is opened. */
  function played() {
    const box = h("details", { class: "played", toggle: () => { if (box.open && box.children.length < 2) box.append(player(data.turns)); } }, h("summary", {}, "Play it as a terminal"));
    return box;
  }

  /** Which update's figures the colours and the tip tell, where several trained the attempt. */
  function trainedBy() {
    if (data.live) return null;
    if (update === null) return h("span", { class: "muted" }, " No figures of an update of this attempt are kept.");
    if (updates.length === 1) return h("span", { class: "muted" }, ` trained by the update to version ${updates[0][1]}`);
    const select = h("select", { id: "update", change: () => {
      update = Number(select.value);
      for (const [number, tokens] of filled) fill(tokens, data.turns[number - 1]);
      address();
    } }, updates.map(([number, version]) => h("option", { value: number }, `update ${number + 1}, to version ${version}`)));
    select.value = update;
    return h("span", {}, h("label", { for: "update" }, " in "), select);
  }

  function facts() {
    const running = data.live === "running", outcome = running ? "not known yet" : data.fault ? "not judged" : data.solved ? "solved" : "not solved";
    const said = [["task", data.task || "not known yet"], ["end", data.stop], ["reward", rewardOf(data.reward, data.stop, data.kept)], ["turns", data.turns.length], ["tokens", count(data.turns.reduce((sum, one) => sum + one.tokens, 0))], ["time", seconds(data.seconds) || "not known yet"], ...(data.asides ? [["asked aside", count(data.asides)]] : [])];
    return h("dl", { class: "facts" }, h("div", {}, h("dt", {}, "outcome"), h("dd", { class: running ? undefined : data.solved ? "good" : "bad" }, outcome)), said.filter(([, value]) => value !== "").map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, visible(value)))));
  }

  /** Other attempts at the same task, which can be read beside this one. */
  function others() {
    const { columns, count: there } = attemptsOf(run);
    const same = Array.from({ length: there }, (_, row) => row).filter((row) => columns.task[row] === data.task && columns.attempt[row] !== id);
    if (!same.length) return null;
    const select = h("select", { id: "other", change: () => { location.hash = `#/pair?${new URLSearchParams({ one: `${run}:${id}`, two: `${run}:${select.value}` })}`; } },
      h("option", { value: "" }, "another attempt at this task …"), same.slice(0, 200).map((row) => h("option", { value: columns.attempt[row] }, `${visible(columns.attempt[row])} ${outcomeOf(columns.solved[row], columns.fault[row], columns.stop[row])}`)));
    return h("p", {}, h("label", { for: "other" }, "Read beside "), select);
  }

  /** The tree of the attempts that began in one another, where this is one of them. It comes later than the turns: all tables are looked at. */
  function relatives() {
    source.family(run, id).then((nodes) => {
      if (over || (!nodes.length && !data.origin)) return;
      const root = nodes.find((node) => !node.parent), origin = h("a", { href: `#/attempt/${run}/${encodeURIComponent(data.origin)}` }, visible(data.origin));
      const tree = root ? h("ul", {}, branch(root, nodes)) : h("p", {}, "It began in ", data.live ? origin : `${visible(data.origin)}, which is not in this run.`);
      still(() => put("relatives", h("details", { open: true, class: "forks" }, h("summary", {}, "Forks"), tree)));
    }).catch(failed);
  }

  function branch(node, nodes) {
    const address = (turn) => `#/attempt/${run}/${encodeURIComponent(node.id)}${turn ? `?turn=${turn}` : ""}`, own = node.id === id;
    const below = nodes.filter(({ parent }) => parent === node.id), outcome = node.fault ? "not judged" : node.solved ? "solved" : "not solved";
    return h("li", {}, node.missing ? visible(node.id) : own ? h("b", { "aria-current": "true" }, visible(node.id)) : h("a", { href: address(node.left + 1) }, visible(node.id)),
      node.missing ? h("span", { class: "muted" }, " is not in this run") : [h("span", { class: "muted" }, node.left ? ` left after turn ${node.left}, ` : " "), h("span", { class: node.solved && !node.fault ? "good" : "bad" }, outcome), h("span", { class: "muted" }, `, reward ${node.reward}, ${visible(node.stop)}, ${node.turns} turns`)],
      below.length ? h("ul", {}, below.slice(0, SHOWN_FORKS).map((one) => branch(one, nodes)), below.length > SHOWN_FORKS ? h("li", { class: "muted" }, `${count(below.length - SHOWN_FORKS)} more`) : null) : null);
  }

  function turnOf(one) {
    const tokens = h("pre", { class: "tokens" });
    const call = one.malformed ? h("span", { class: "bad" }, one.malformed) : h("span", { class: "tool" }, visible(one.tool));
    const answer = one.failure ? `${one.failure}` : one.exit_code === null ? "" : `exit ${one.exit_code}`;
    const box = h("section", { class: `turn${one.replayed ? " replayed" : ""}`, id: `turn-${one.number}`, tabindex: "-1", "aria-label": `Turn ${one.number}` },
      h("h2", {}, h("a", { href: `#/attempt/${run}/${encodeURIComponent(id)}?turn=${one.number}` }, `Turn ${one.number}`), " ", call,
        h("span", { class: "muted" }, ` version ${one.version}${one.replayed ? ", replayed" : ""}${one.begins && one.number > 1 ? ", context begun anew" : ""}`)),
      tokens,
      h("div", { class: "answer" }, h("p", { class: "muted" }, `${answer} ${seconds(one.seconds)}`), observed(run, id, one)),
      one.changes.map((change) => h("details", { class: "change", open: one.changes.length < 4 }, h("summary", {}, visible(change.path)), change.why ? h("p", { class: "muted" }, visible(change.why)) : null, change.diff ? patch(change.diff) : change.now ? told(change.now) : null)));
    lazily(box, () => {
      filled.set(one.number, tokens);
      fill(tokens, data.turns[one.number - 1]);
    });
    return box;
  }

  function fill(tokens, one) {
    if (!one.ids.length) {
      tokens.replaceChildren(visible(one.text));
      return;
    }
    const trained = one.trained.find((each) => each.update === update);
    const starts = one.spans.length ? one.spans : [[one.version, 0]];
    let span = 0;
    const made = one.ids.map((number, place) => {
      if (starts[span + 1] && starts[span + 1][1] <= place) span++;
      const likely = Math.exp(one.logprobs[place]), version = starts[span][0];
      const read = trained && trained.logprobs[place] !== null ? readAt(trained, place, one.logprobs[place]) : null;
      const classes = read ? `e${9 - above(ENTROPIES, read.entropies)} a${sided(ADVANTAGES, read.advantages)} ${read.old === null ? "" : `r${sided(RATIOS, read.logprobs - read.old)}`}` : "untrained";
      const token = h("span", { class: `token p${Math.min(9, Math.floor(10 * likely))} v${versions.indexOf(version) % 6} ${classes}` }, visible(one.pieces[place]) || "\u200b");
      tokenFacts.set(token, { id: number, logprob: one.logprobs[place], version, read });
      return token;
    });
    tokens.replaceChildren(...made);
  }

  function verdict() {
    const failed = data.tests.filter((one) => !one.satisfied);
    const line = data.live === "running" ? "It is judged when it has ended." : data.fault ? `Nobody judged it: ${data.fault}` : !data.tests.length ? "No tests ran." : failed.length ? `${failed.length} of ${data.tests.length} tests do not hold.` : data.tests.length === 1 ? "The test holds." : `All ${data.tests.length} tests hold.`;
    return h("details", { open: true }, h("summary", {}, "The verdict"), h("p", {}, visible(line)),
      data.tamper.length ? h("p", { class: "bad" }, "Tampered with: ", visible(data.tamper.join("; "))) : null,
      h("table", { class: "tests" }, h("thead", {}, h("tr", {}, ["test", "was to", "ended"].map((title) => h("th", { scope: "col" }, title)))),
        h("tbody", {}, [...failed, ...data.tests.filter((one) => one.satisfied)].slice(0, 500).map((one) => h("tr", { class: one.satisfied ? "good" : "bad" }, h("td", {}, visible(one.id)), h("td", {}, one.expected === "fail_to_pass" ? "begin to pass" : "go on passing"), h("td", {}, one.status))))));
  }

  function paint(name) {
    colour = name;
    document.getElementById("turns").dataset.colour = colour;
    const scale = document.querySelector(".scale"), { ends } = COLOURS[colour];
    scale.hidden = !ends;
    scale.replaceChildren(...(ends ? [`${ends[0]} `, h("span", { class: `ramp ${colour}` }), ` ${ends[1]}`] : []));
    address();
  }

  function address() {
    const next = new URLSearchParams({ ...(turn ? { turn } : {}), ...(colour === "probability" ? {} : { colour }), ...(updates.length > 1 && update !== updates.at(-1)[0] ? { update } : {}) });
    history.replaceState(null, "", `#/attempt/${run}/${encodeURIComponent(id)}${next.size ? `?${next}` : ""}`);
  }

  function go(number) {
    const box = document.getElementById(`turn-${number}`);
    if (!box) return;
    turn = number;
    address();
    box.scrollIntoView({ block: "start" });
    box.focus({ preventScroll: true });
  }

  const step = (by) => data && go(Math.min(Math.max(1, turn + by), data.turns.length));
  const cycle = () => {
    const names = Object.keys(COLOURS).filter((name) => update !== null || !COLOURS[name].asks), select = document.getElementById("colour");
    select.value = names[(names.indexOf(colour) + 1) % names.length];
    paint(select.value);
  };
  return { update: () => {}, lived, close: () => { over = true; }, keys: { n: () => step(1), p: () => step(-1), e: () => data && go(data.turns.length), c: cycle, Escape: () => { location.hash = `#/list/${run}`; } } };
}

/** What a turn was answered; of a very long answer the rest is fetched when it is asked for. */
function observed(run, id, one) {
  const attributes = { class: one.failure ? "failed" : undefined };
  const box = h("div", {}, told(one.observation, attributes));
  if (one.left) box.append(h("button", { type: "button", class: "more", click: () => source.observation(run, id, one.number).then((whole) => box.replaceChildren(told(whole, attributes))).catch(failed) }, `fetch all of it (${count(one.left)} letters more)`));
  return box;
}

/** A patch, its lines coloured by what they do. */
function patch(text) {
  if (!text) return h("p", { class: "muted" }, "Nothing was changed.");
  if (text.length > LONG) return told(text);
  return h("pre", { class: "patch" }, text.split("\n").map((line) => h("span", { class: /^(\+\+\+|---|diff|index)/.test(line) ? "muted" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@@") ? "place" : undefined }, visible(line) + "\n")));
}

const waiting = new WeakMap();
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting || !waiting.has(target)) continue;
    waiting.get(target)();
    waiting.delete(target);
    seen.unobserve(target);
  }
}, { rootMargin: "1000px" });

/** Fills an element when it is nearly in sight: an attempt may have a hundred thousand tokens. */
function lazily(element, fill) {
  waiting.set(element, fill);
  seen.observe(element);
}
