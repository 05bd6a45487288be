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
  curves: (run) => source.ask(`data/${run}/curves`),
  outcomes: (run) => source.ask(`data/${run}/outcomes`),
  compared: (one, two) => source.ask(`data/compared?${new URLSearchParams({ one, two })}`),
  family: (run, id) => source.ask(`data/${run}/family?id=${encodeURIComponent(id)}`),
  chunk: (run, number) => source.ask(`data/${run}/list/${number}`),
  attempt: (run, id) => source.ask(`data/${run}/attempt?id=${encodeURIComponent(id)}`),
  observation: (run, id, turn) => source.ask(`data/${run}/observation?id=${encodeURIComponent(id)}&turn=${turn}`),
  search: (run, words) => source.ask(`data/${run}/search?words=${encodeURIComponent(words)}`),
  /** Calls back whenever a run has more, and `at` with what each run is at. */
  watch(changed, at) {
    let before = null;
    const events = new EventSource("data/events");
    events.onmessage = (event) => {
      const { state, now } = JSON.parse(event.data);
      at(now);
      if (before !== null && state !== before) changed();
      before = state;
    };
    return () => events.close();
  },
};
