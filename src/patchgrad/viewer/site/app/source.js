"use strict";
/* Where the data comes from: the server that gave the page. */

const source = {
  async ask(path) {
    const answer = await fetch(path);
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error || answer.statusText);
    return told;
  },
  overview: () => source.ask("data/overview"),
  report: (run) => source.ask(`data/${run}/report`),
  comparison: () => source.ask("data/comparison"),
  seeds: () => source.ask("data/seeds"),
  curves: (run) => source.ask(`data/${run}/curves`),
  outcomes: (run) => source.ask(`data/${run}/outcomes`),
  compared: (one, two) => source.ask(`data/compared?${new URLSearchParams({ one, two })}`),
  family: (run, id) => source.ask(`data/${run}/family?id=${encodeURIComponent(id)}`),
  chunk: (run, number) => source.ask(`data/${run}/list/${number}`),
  attempt: (run, id, after = "") => source.ask(`data/${run}/attempt?id=${encodeURIComponent(id)}${after ? `&after=${after}` : ""}`),
  observation: (run, id, turn) => source.ask(`data/${run}/observation?id=${encodeURIComponent(id)}&turn=${turn}`),
  search: (run, words) => source.ask(`data/${run}/search?words=${encodeURIComponent(words)}`),
  /** Calls back whenever a run has more, `at` with what each run is at, and `lived` with what is new of attempts that no table has. */
  watch(changed, at, lived) {
    let before = null, last = Promise.resolve();
    const events = new EventSource("data/events"), take = async ({ state, now, live, first }) => {
      const more = before !== null && state !== before;
      before = state;
      at(now);
      if (more) await changed(); // an attempt that goes into a table is there before it goes from here
      lived(live, first);
    };
    events.onmessage = (event) => { last = last.then(() => take(JSON.parse(event.data))).catch(console.error); }; // what comes later is shown although this could not be
    return () => events.close();
  },
};
