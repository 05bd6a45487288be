"use strict";
/* Where the data comes from in a folder: scripts that lie beside the page, each of which hands over a piece of it. */

const handed = new Map();
const given = (name, value) => handed.set(name, value);

const source = {
  packs: [],
  marks: [],
  /** A piece of data; what is large is not kept. */
  ask(name) {
    return new Promise((done, failed) => {
      const script = h("script", { src: `data/${name}.js` });
      script.onload = () => {
        script.remove();
        done(handed.get(name));
        handed.delete(name);
      };
      script.onerror = () => failed(new Error(`The page's folder has no data/${name}.js.`));
      document.head.append(script);
    });
  },
  async overview() {
    const told = await source.ask("overview");
    source.packs = told.runs.map((run) => run.packs);
    source.marks = told.runs.map((run) => run.chunks);
    return told;
  },
  report: (run) => source.ask(`${run}/report`),
  comparison: () => source.ask("comparison"),
  seeds: () => source.ask("seeds"),
  curves: (run) => source.ask(`${run}/curves`),
  outcomes: (run) => source.ask(`${run}/outcomes`),
  async compared(one, two) {
    const found = (await source.ask("compared"))[`${one} ${two}`];
    if (!found) throw new Error(`There are no two reports ${one} and ${two}.`);
    return found;
  },
  family: async (run, id) => (await source.ask(`${run}/families`)).find((nodes) => nodes.some((node) => node.id === id)) || [],
  chunk: (run, number) => source.ask(`${run}/list/${number}`),
  async attempt(run, id) {
    const list = attemptsOf(run);
    if (!list.tabled) await list.load(source.marks[run], () => {});
    const place = list.columns.attempt.indexOf(id);
    const pack = source.packs[run].findLastIndex((start) => start <= place);
    const found = place >= 0 && pack >= 0 ? (await source.ask(`${run}/attempts/${pack}`))[id] : undefined;
    if (!found) throw new Error(`There is no attempt ${id} here.`);
    return found;
  },
  async search(run, words) {
    const low = words.toLowerCase(), found = [];
    for (let pack = 0; pack < source.packs[run].length; pack++) {
      for (const one of Object.values(await source.ask(`${run}/attempts/${pack}`))) {
        const texts = [one.instruction, one.submission, ...one.turns.flatMap((turn) => [turn.text, turn.observation])];
        if (texts.some((text) => text.toLowerCase().includes(low))) found.push(one.id);
      }
    }
    return found;
  },
  /** A folder does not grow: what the runs were at when it was written. */
  watch(changed, at) {
    source.overview().then((told) => at(told.runs.map((run) => ({ ...run.now, then: true })))).catch(() => {});
    return () => {};
  },
};
