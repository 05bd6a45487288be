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
  curves: (run) => source.ask(`data/${run}/curves`),
  chunk: (run, number) => source.ask(`data/${run}/list/${number}`),
  attempt: (run, id) => source.ask(`data/${run}/attempt?id=${encodeURIComponent(id)}`),
  observation: (run, id, turn) => source.ask(`data/${run}/observation?id=${encodeURIComponent(id)}&turn=${turn}`),
  search: (run, words) => source.ask(`data/${run}/search?words=${encodeURIComponent(words)}`),
  /** Calls back whenever a run has more. */
  watch(changed) {
    let first = true;
    const events = new EventSource("data/events");
    events.onmessage = () => {
      if (!first) changed();
      first = false;
    };
    return () => events.close();
  },
};
