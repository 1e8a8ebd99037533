// Puts the page together; what belongs to no single part: header, theme, splitter, keys for everywhere.
function makeHeader(report) {
  byId("name").textContent = report.name;
  const features = report.target === "host" ? `${report.cpu}, ${report.triple.split("-")[0]}` : `${report.cpu} ${report.cpu_features.join(" ")}`;
  byId("subtitle").textContent = [`target ${report.target} (${features})`, `tripont ${report.tripont}`, report.origin].join(" · ");
  byId("subtitle").title = [report.cpu_features.join(" "), ...report.notes].join("\n");
  const figures = byId("figures");
  const add = (name, value) => figures.append(element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  add("operations", String(report.operations.length));
  if (report.kernels.length) add("kernels", String(report.kernels.length));
  add("flops", amount(report.costs.flops));
  add("bytes", byteSize(report.costs.bytes_accessed));
  add(report.timeline.measured ? "measured" : "estimated", duration(report.timeline.total));
  if (report.compiled.length) addCompileTime(report, add);
}

// How long the compilation took; its title says how long each stage and the longest passes did.
function addCompileTime(report, add) {
  const line = (step) => `${step.name}: ${duration(step.milliseconds * 1e6)}`;
  const longest = [...report.passes].sort((a, b) => b.milliseconds - a.milliseconds).slice(0, 8);
  add("compiled in", duration(report.compiled.reduce((sum, stage) => sum + stage.milliseconds, 0) * 1e6));
  byId("figures").lastChild.title = ["Stages", ...report.compiled.map(line), "", "Longest passes", ...longest.map(line)].join("\n");
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

function switchTheme() {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

function makeSplitter() {
  const splitter = byId("splitter");
  const main = byId("main");
  function set(percent) {
    const value = Math.round(Math.max(15, Math.min(85, percent)));
    main.style.setProperty("--stages", `${value}%`);
    splitter.setAttribute("aria-valuenow", String(value));
  }
  const current = () => Number(splitter.getAttribute("aria-valuenow"));
  splitter.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: 4, ArrowDown: -4 };
    if (event.key in steps) set(current() + steps[event.key]);
    else if (event.key === "Home") set(15);
    else if (event.key === "End") set(85);
    else return;
    event.preventDefault();
  });
  splitter.addEventListener("pointerdown", (event) => {
    splitter.setPointerCapture(event.pointerId);
    const move = (to) => {
      const frame = main.getBoundingClientRect();
      set((100 * (frame.bottom - to.clientY)) / frame.height);
    };
    splitter.addEventListener("pointermove", move);
    splitter.addEventListener("pointerup", () => splitter.removeEventListener("pointermove", move), { once: true });
  });
}

function makeKeys(list) {
  const dialog = byId("keys");
  const focus = (id) => () => (byId(id).querySelector("[tabindex]") || byId(id)).focus();
  const actions = {
    "/": () => byId("search").focus(),
    "?": () => dialog.showModal(),
    d: switchTheme,
    "[": () => list.step(-1),
    "]": () => list.step(1),
    l: () => byId("list").focus(),
    g: () => byId("graph").focus(),
    t: () => byId("timeline").focus(),
    s: focus("stages"),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches && event.target.matches("input, select, textarea");
    if (typing || dialog.open || event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });
  byId("help").addEventListener("click", actions["?"]);
  byId("theme").addEventListener("click", switchTheme);
}

async function start() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const report = await unpack();
  state.report = report;
  addTimes(report);
  makeHeader(report);
  const list = makeList(report);
  makeGraph(report);
  makeTimeline(report);
  makeStages(report);
  makeSplitter();
  makeKeys(list);
  const wanted = decodeURIComponent(location.hash.slice(1));
  const found = report.operations.findIndex((operation) => operation.id === wanted);
  const longest = report.operations.reduce((best, operation) => (operation.time > best.time && operation.opcode === "fusion" ? operation : best), report.operations[0] || {});
  if (report.operations.length) choose(found >= 0 ? found : longest.index, "start");
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  byId("main").replaceChildren(element("p", { class: "error" }, `This page cannot be shown: ${error.message}`));
  document.documentElement.dataset.ready = "error";
  throw error;
});
