"use strict";
/* An attempt as a terminal shows it: each call as it is typed, and its answer after the time that it took. */

const KEYSTROKE = 30, TYPED = 1200, WAITED = 3000, READ = 700; // milliseconds: for a letter; at most for a call, for an answer; after it

/** What appears when: `{at, text, kind}` in order, and when the last of it was read. */
function script(turns) {
  const found = [];
  let at = 0, directory = "/testbed";
  const show = (kind, text, after) => {
    found.push({ at, kind, text });
    at += after;
  };
  for (const one of turns) {
    const call = one.malformed ? "" : one.tool === "bash" ? one.arguments : `${one.tool} ${one.arguments}`;
    show("place", `${one.malformed ? `[turn ${one.number}: ${one.malformed}]` : `${directory} $`} `, 0);
    const letters = [...call], parts = Math.max(1, Math.min(letters.length, 40)), step = Math.min(TYPED, KEYSTROKE * call.length) / parts;
    for (let part = 0; part < parts; part++) show("", letters.slice(Math.floor((part * letters.length) / parts), Math.floor(((part + 1) * letters.length) / parts)).join(""), step);
    show("", "\n", Math.min(WAITED, 1000 * (one.seconds || 0)));
    const answer = one.observation.slice(0, LONG), left = one.left + one.observation.length - answer.length;
    show(one.failure ? "bad" : "", `${answer}${answer && !answer.endsWith("\n") ? "\n" : ""}`, 0);
    directory = one.directory;
    show("muted", left ? `[${count(left)} letters more]\n` : "", READ);
  }
  return { events: found, length: at };
}

/** A player of these turns. */
function player(turns) {
  const { events, length } = script(turns);
  let now = 0, shown = 0, since = null;
  const screen = h("pre", { class: "screen", tabindex: "0", "aria-label": "The terminal" });
  const button = h("button", { type: "button", click: () => (since === null ? play() : pause()) });
  const place = h("input", { type: "range", min: 0, max: Math.ceil(length), step: 1, "aria-label": "Place in the recording", input: () => { since = null; to(Number(place.value)); } });
  const speed = h("select", { "aria-label": "Speed" }, [0.5, 1, 2, 4, 16].map((times) => h("option", { value: times }, `${times} ×`)));
  speed.value = "1";

  function to(time) {
    now = Math.min(time, length);
    const end = events.findIndex((one) => one.at > now), until = end < 0 || now >= length ? events.length : end;
    if (until < shown) {
      screen.replaceChildren();
      shown = 0;
    }
    for (; shown < until; shown++) screen.append(h("span", { class: events[shown].kind || undefined }, visible(events[shown].text)));
    screen.scrollTop = screen.scrollHeight;
    place.value = now;
    place.setAttribute("aria-valuetext", `${(now / 1000).toFixed(0)} of ${(length / 1000).toFixed(0)} s`);
    button.textContent = since !== null ? "Pause" : now >= length ? "Play again" : "Play";
  }

  function play() {
    if (now >= length) to(0);
    since = performance.now();
    requestAnimationFrame(frame);
  }

  function frame(time) {
    if (since === null || !screen.isConnected) return;
    const next = now + Number(speed.value) * Math.max(0, time - since);
    since = next < length ? time : null;
    to(next);
    if (since !== null) requestAnimationFrame(frame);
  }

  function pause() {
    since = null;
    to(now);
  }

  to(0);
  return h("div", { class: "player" }, h("div", {}, button, " ", place, " ", speed), screen);
}
