// The peer of the benchmarks: the same graphs in LangGraph.js with SqliteSaver.
//
// Usage: node peer.mjs FILE FULL|NORMAL. Reads commands, one a line, and
// answers each with a line of JSON:
//
//   chain NODES SIZE RUNS MODE   RUNS runs of NODES nodes in sequence
//   loop VISITS SIZE MODE        one run in which one node is visited VISITS times
//
// MODE is "rewritten" (each node replaces the SIZE bytes of state) or "kept"
// (it only counts). Every step is durable before the next ("sync").
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import { createInterface } from "node:readline";

const [file, level] = process.argv.slice(2);
const db = new Database(file);
db.pragma("journal_mode = WAL");
db.pragma(`synchronous = ${level}`);
const checkpointer = new SqliteSaver(db);
const levels = { 1: "NORMAL", 2: "FULL" };

const State = Annotation.Root({ n: Annotation(), payload: Annotation() });

// text is SIZE bytes that differ from visit to visit and don't compress well,
// made as the Go side makes them.
function text(size, seed) {
  let x = (seed * 2654435761 + 88172645) >>> 0 || 1;
  const out = new Uint8Array(size);
  for (let i = 0; i < size; i++) {
    x ^= (x << 13) >>> 0;
    x ^= x >>> 17;
    x ^= (x << 5) >>> 0;
    x >>>= 0;
    out[i] = 97 + (x % 26);
  }
  return Buffer.from(out).toString("latin1");
}

function node(size, mode) {
  return (s) => {
    const n = s.n + 1;
    return mode === "rewritten" ? { n, payload: text(size, n) } : { n };
  };
}

function chain(nodes, size, mode) {
  const g = new StateGraph(State);
  for (let i = 0; i < nodes; i++) g.addNode(`n${i}`, node(size, mode));
  g.addEdge(START, "n0");
  for (let i = 1; i < nodes; i++) g.addConditionalEdges(`n${i - 1}`, (s) => (s.n >= 0 ? `n${i}` : END), [`n${i}`, END]);
  g.addEdge(`n${nodes - 1}`, END);
  return g.compile({ checkpointer });
}

function loop(visits, size, mode) {
  const g = new StateGraph(State).addNode("body", node(size, mode)).addEdge(START, "body");
  g.addConditionalEdges("body", (s) => (s.n < visits ? "body" : END), ["body", END]);
  return g.compile({ checkpointer });
}

let thread = 0;
async function run(graph, size, steps) {
  const got = await graph.invoke(
    { n: 0, payload: text(size, 0) },
    { configurable: { thread_id: `t${thread++}` }, durability: "sync", recursionLimit: steps + 10 },
  );
  if (got.n !== steps) throw new Error(`ran ${got.n} of ${steps} nodes`);
}

// bytes is the size of the file with everything in it. It is asked and not
// done: a log that was emptied grows again, which makes commits slower.
function bytes() {
  return db.pragma("page_count", { simple: true }) * db.pragma("page_size", { simple: true });
}

const graphs = new Map();
function cached(key, make) {
  if (!graphs.has(key)) graphs.set(key, make());
  return graphs.get(key);
}

async function answer(line) {
  const [what, a, b, c, d] = line.split(" ");
  checkpointer.setup();
  const before = bytes();
  const began = process.hrtime.bigint();
  let steps = 0;
  if (what === "chain") {
    const graph = cached(line.replace(/ \d+ (\w+)$/, " $1"), () => chain(+a, +b, d));
    for (let i = 0; i < +c; i++, steps += +a) await run(graph, +b, +a);
  } else if (what === "loop") {
    await run(loop(+a, +b, c), +b, +a);
    steps = +a;
  } else {
    throw new Error(`unknown command ${line}`);
  }
  const ns = Number(process.hrtime.bigint() - began);
  const rows = db.prepare("SELECT count(*) AS n FROM checkpoints").get().n;
  return { nodes: steps, ns, bytes: bytes() - before, rows, synchronous: levels[db.pragma("synchronous", { simple: true })] };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(line.trim())));
}
