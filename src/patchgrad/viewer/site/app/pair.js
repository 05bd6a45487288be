"use strict";
/* Two attempts side by side, turn by turn, with the first turn at which they part. */

function pairView(place, sides) {
  let over = false;
  place.replaceChildren(h("p", { class: "muted", role: "status" }, "reading …"));
  Promise.all(sides.map(({ run, id }) => source.attempt(run, id))).then(show).catch(failed);

  function show(both) {
    if (over) return;
    const length = Math.max(...both.map((one) => one.turns.length));
    const parted = Array.from({ length }, (_, number) => number).find((number) => !same(both[0].turns[number], both[1].turns[number]));
    const rows = Array.from({ length }, (_, number) => h("div", { class: `pair${number === parted ? " parted" : ""}`, id: `turn-${number + 1}`, tabindex: "-1" },
      number === parted ? h("p", { class: "mark" }, `Here they part: turn ${number + 1}`) : null,
      both.map((one, side) => cell(one.turns[number], number, sides[side]))));
    place.replaceChildren(...there(
      h("h1", {}, both[0].task === both[1].task ? visible(both[0].task) : "Two attempts at two tasks"),
      h("p", { role: "status" }, parted === undefined ? "All their turns are the same." : parted ? `Their first ${parted === 1 ? "turn is" : `${parted} turns are`} the same. ` : "They part in the first turn. ",
        parted === undefined ? null : h("a", { href: "#", click: (event) => { event.preventDefault(); document.getElementById(`turn-${parted + 1}`).scrollIntoView(); } }, `to turn ${parted + 1}`)),
      h("div", { class: "pair" }, both.map((one, side) => h("div", {}, h("h2", {}, h("a", { href: attemptAddress(sides[side]) }, visible(one.id))),
        h("p", {}, h("span", { class: one.solved === null ? undefined : one.solved ? "good" : "bad" }, outcomeOf(one.solved, one.fault, one.stop)), `${UNENDED.includes(one.stop) ? "" : ` · ${visible(one.stop)}`} · ${counted(one.turns.length, "turn")}`)))),
      ...rows,
      h("div", { class: "pair" }, both.map((one) => h("div", {}, h("h2", {}, "The patch"), patch(one.submission))))));
    if (parted !== undefined) document.getElementById(`turn-${parted + 1}`).focus({ preventScroll: true });
  }

  function same(one, other) {
    return one && other && one.text === other.text && one.observation === other.observation && one.ids.length === other.ids.length && one.ids.every((id, place) => id === other.ids[place]);
  }

  function cell(one, number, side) {
    if (!one) return h("div", { class: "muted" }, "no such turn");
    const tokens = h("pre", { class: "tokens" }, visible(one.text));
    return h("section", { "aria-label": `Turn ${one.number} of ${side.id}` }, h("h3", {}, h("a", { href: `${attemptAddress(side)}?turn=${number + 1}` }, `Turn ${one.number}`)), tokens, observed(side.run, side.id, one), one.changes.map((change) => (change.diff ? patch(change.diff) : null)));
  }

  return { update: () => {}, close: () => { over = true; }, keys: { Escape: () => history.back() } };
}

const attemptAddress = ({ run, id }) => `#/attempt/${run}/${encodeURIComponent(id)}`;
