"use strict";
/* Attempts that no table has yet: those under way, and those that have ended since the last table. The server tells them as they change. */

const NAMES = ["attempt", "task", "phase", "stop", "fault", "solved", "iteration", "policy_version", "reward", "turns", "malformed", "action_tokens", "context_tokens", "seconds", "failures"];
const UNENDED = ["running", "interrupted", "not ended"]; // ends of attempts that have none yet
const underWay = []; // by run: what the list tells of each, by its name

const liveOf = (run) => (underWay[run] = underWay[run] || new Map());

/** Takes in what is otherwise than before; of each run what that is. At `first` all there is was told, and nothing else is there. */
function lived(told, first) {
  return told.map((changes, run) => {
    const known = liveOf(run), gone = first ? [...known.keys()].filter((name) => !changes[name]).map((name) => [name, null]) : [], all = { ...Object.fromEntries(gone), ...changes };
    for (const [name, row] of Object.entries(all)) {
      if (row) known.set(name, row);
      else known.delete(name);
    }
    return all;
  });
}

/** Puts the rows of a run's live attempts behind those of its tables; the names of the columns that are others than before. */
function putLive(attempts) {
  const { columns, tabled } = attempts, other = new Set();
  const rows = [...liveOf(attempts.run)].filter(([name]) => !attempts.names.has(name));
  for (const name of Object.keys(tabled ? columns : Object.fromEntries(NAMES.map((one) => [one, 0])))) {
    const column = (columns[name] = columns[name] || []);
    const before = JSON.stringify(column.splice(tabled));
    const now = rows.map(([id, row]) => (name === "attempt" ? id : name === "failures" ? [] : row[name] ?? null));
    for (const one of now) column.push(one);
    if (JSON.stringify(now) !== before) other.add(name);
  }
  attempts.count = tabled + rows.length;
  return other;
}

/** What the list shows in place of an outcome and of a reward that nobody knows yet. */
const outcomeOf = (solved, fault, stop) => (UNENDED.includes(stop) ? `… ${stop}` : fault ? "? not judged" : solved ? "✓ solved" : "✗ not");
const rewardOf = (reward, stop, kept = true) => (reward !== null ? reward : UNENDED.includes(stop) ? "" : kept ? "to come" : "not kept");

/** Changes the page so that the turn which is read stays where it is. */
function still(change) {
  const read = [...document.querySelectorAll("#turns > .turn")].find((one) => one.getBoundingClientRect().bottom > 0), top = read && read.getBoundingClientRect().top;
  change();
  if (read && read.isConnected && window.scrollY > 0) window.scrollBy(0, read.getBoundingClientRect().top - top);
}
