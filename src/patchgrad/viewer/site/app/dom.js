"use strict";
/* Elements are made of text alone: nothing that an agent wrote is ever read as HTML. */

/** `h("a", {class: "name", href: "#/"}, "text", child)`: an element; a function as an attribute listens to its event. */
function h(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...there(...children));
  return made;
}

/** The same for a drawing: `s("line", {x1: 0, class: "grid"})`. */
function s(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...there(...children));
  return made;
}

/** Children without what is not there. */
const there = (...children) => children.flat().filter((one) => one !== null && one !== undefined && one !== false);

/** What would act on a reader's screen without being seen (controls, marks that turn the direction of text) is shown as its code. */
function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (letter) => "\u2423" + letter.charCodeAt(0).toString(16).padStart(2, "0"));
}

const LONG = 20000; // letters of a text that are shown at once

/** A text as it stands; of a long one its beginning, and a button for more. */
function told(text, attributes) {
  const whole = String(text);
  const box = h("pre", attributes, visible(whole.slice(0, LONG)));
  if (whole.length <= LONG) return box;
  let shown = LONG;
  const more = h("button", { type: "button", class: "more", click: () => {
    box.append(visible(whole.slice(shown, shown + 10 * LONG)));
    shown += 10 * LONG;
    more.hidden = shown >= whole.length;
    more.textContent = `show more (${count(whole.length - shown)} letters are left)`;
  } }, `show more (${count(whole.length - LONG)} letters are left)`);
  return h("div", {}, box, more);
}

const count = (number) => Number(number).toLocaleString("en");
const counted = (number, name) => `${count(number)} ${name}${number === 1 ? "" : "s"}`;
const share = (number) => (number === null || number === undefined ? "" : `${(100 * number).toFixed(1)} %`);
const seconds = (number) => (number === null || number === undefined ? "" : number < 59.95 ? `${number.toFixed(1)} s` : `${Math.floor(Math.round(number) / 60)}:${String(Math.round(number) % 60).padStart(2, "0")} min`);
