// The report, the chosen operation, and small helpers.
const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawn(tag, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// The data of the page: base64 of deflated JSON.
async function unpack() {
  const text = byId("data").textContent.trim();
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

function scaled(value, units, step) {
  let unit = 0;
  while (Math.abs(value) >= step && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  const digits = value >= 100 || (unit === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)}${units[unit]}`;
}
const duration = (ns) => scaled(ns, [" ns", " µs", " ms", " s"], 1000);
const byteSize = (bytes) => scaled(bytes, [" B", " KiB", " MiB", " GiB"], 1024);
const amount = (count) => scaled(count, ["", " k", " M", " G", " T"], 1000);

// The colour class of an operation.
function categoryOf(operation) {
  if (operation.opcode === "fusion") {
    if (operation.kind.startsWith("attention")) return "dot";
    return ["loop", "reduce", "row", "transpose", "dot"].includes(operation.kind) ? operation.kind : "loop";
  }
  if (operation.opcode === "library-call" || operation.opcode === "custom-call") return "library";
  if (["while", "conditional", "call"].includes(operation.opcode)) return "control";
  if (operation.opcode === "dot" || operation.opcode === "convolution") return "dot";
  return "plain";
}

const titleOf = (operation) => operation.library_call || operation.name;
const kindOf = (operation) =>
  operation.opcode === "fusion" ? `${operation.kind} fusion` : operation.library_call ? `library call` : operation.opcode;

function sourceOf(operation) {
  const place = operation.sources[0] || (operation.source && operation.source.file ? operation.source : null);
  return place ? { file: place.file, line: place.line } : null;
}
const fileName = (path) => path.split("/").pop();

// The chosen operation: everything that shows it listens here.
const state = { report: null, chosen: -1, listeners: [] };

function choose(index, origin) {
  if (index < 0 || index >= state.report.operations.length || index === state.chosen) return;
  state.chosen = index;
  history.replaceState(null, "", `#${encodeURIComponent(state.report.operations[index].id)}`);
  for (const listener of state.listeners) listener(index, origin);
}

// Adds to each operation the time of its thunk (all its runs together) and how often that ran.
function addTimes(report) {
  const sums = new Map();
  for (const [thunk, , length] of report.timeline.events) {
    const entry = sums.get(thunk) || { time: 0, runs: 0 };
    entry.time += length;
    entry.runs += 1;
    sums.set(thunk, entry);
  }
  report.operations.forEach((operation, index) => {
    const entry = sums.get(operation.thunk);
    operation.index = index;
    operation.time = entry && !operation.shared ? entry.time : 0;
    operation.runs = entry ? entry.runs : 0;
    operation.category = categoryOf(operation);
  });
  report.longest = Math.max(1, ...report.operations.map((operation) => operation.time));
}
