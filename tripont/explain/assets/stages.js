// The stages side by side: the operation itself, and three texts that can be chosen.
function makeStages(report) {
  const box = byId("stages");
  const texts = new Map(report.stages.map((stage) => [stage.key, stage]));
  const linesOf = (stage) => (stage.split ||= stage.text.split("\n"));
  const code = ["s", "spvasm"].find((key) => texts.has(key));
  const aboutOperation = ["after_optimizations.txt", "ir-no-opt.ll", "ir-with-opt.ll", code].filter((key) => texts.has(key));
  const preferred = ["after_optimizations.txt", "ir-with-opt.ll", code].filter((key) => texts.has(key));
  const fallback = ["thunk_sequence.txt", "buffer_assignment.txt"].filter((key) => texts.has(key) && !preferred.includes(key));
  const short = { "after_optimizations.txt": "HLO" };
  const summary = element("div", { class: "summary", tabindex: "0", role: "region", "aria-label": "The operation" });
  const summaryColumn = element("div", { class: "panel column wide" }, element("div", { class: "panelhead" }, element("h2", {}, "Operation")), summary);
  const columns = [...preferred, ...fallback].slice(0, 3).map((key, index) => makeColumn(key, index));
  box.append(summaryColumn, ...columns.map((column) => column.panel));

  function makeColumn(initial, index) {
    const select = element("select", { "aria-label": `Stage in column ${index + 1}` });
    const own = element("optgroup", { label: "This operation" });
    for (const key of aboutOperation) own.append(element("option", { value: `own:${key}` }, short[key] || texts.get(key).title));
    if (aboutOperation.length) select.append(own);
    for (const [group, label] of [["stage", "Whole module"], ["pass", "HLO after passes"]]) {
      const stages = report.stages.filter((stage) => stage.group === group);
      if (!stages.length) continue;
      const part = element("optgroup", { label });
      for (const stage of stages) part.append(element("option", { value: `all:${stage.key}` }, group === "stage" ? `${stage.title} (all)` : stage.title));
      select.append(part);
    }
    select.value = aboutOperation.includes(initial) ? `own:${initial}` : `all:${initial}`;
    const where = element("span", { class: "where" });
    const body = element("div", { class: "code", tabindex: "0", role: "region", "aria-label": "Text of the stage" });
    const panel = element("div", { class: "panel column" }, element("div", { class: "panelhead" }, select, where), body);
    let shown = "";
    function refresh() {
      const [scope, key] = [select.value.slice(0, 3), select.value.slice(4)];
      const stage = texts.get(key);
      const operation = report.operations[state.chosen];
      body.setAttribute("aria-label", stage.title);
      if (scope === "all") {
        const hot = new Set();
        for (const [first, last] of (operation && operation.lines[key]) || []) for (let n = first; n <= last; n += 1) hot.add(n);
        where.textContent = `${linesOf(stage).length} lines`;
        if (shown === select.value && !hot.size) return;
        showText(body, linesOf(stage), null, stage.language, hot);
        const first = body.querySelector(".hot");
        if (first) body.scrollTop = Math.max(0, first.offsetTop - body.offsetTop - 60);
      } else {
        const parts = operation ? operation.lines[key] : null;
        if (parts) showText(body, linesOf(stage), parts, stage.language);
        else body.replaceChildren(element("p", { class: "none" }, missing(operation, stage)));
        where.textContent = parts ? `${parts.reduce((sum, [first, last]) => sum + last - first + 1, 0)} lines` : "";
      }
      shown = select.value;
    }
    select.addEventListener("change", refresh);
    return { panel, refresh };
  }

  function missing(operation, stage) {
    if (!operation) return "";
    if (operation.library_call) return `No ${stage.title} of its own: the runtime calls ${operation.library_call} of a library.`;
    if (["while", "conditional", "call"].includes(operation.opcode)) return "The runtime runs this: choose what is in it.";
    return `No ${stage.title} of its own.`;
  }

  function facts(operation) {
    const list = element("dl", { class: "facts" });
    const add = (name, value) => list.append(element("div", {}, element("dt", {}, name), element("dd", {}, value)));
    const measured = report.timeline.measured;
    if (operation.time) add(measured ? "time" : "time, estimated", duration(operation.time) + (operation.runs > 1 ? ` in ${operation.runs} runs` : ""));
    else if (operation.shared) add("time", `part of ${report.thunks[operation.thunk].name}`);
    if (operation.flops) add("flops, estimated", amount(operation.flops));
    if (operation.transcendentals) add("transcendental", amount(operation.transcendentals));
    add("bytes read", byteSize(operation.bytes_read));
    add("bytes written", byteSize(operation.bytes_written));
    if (measured && operation.time) {
      const seconds = operation.time / 1e9 / operation.runs;
      add("bandwidth", `${amount((operation.bytes_read + operation.bytes_written) / seconds)}B/s`);
      if (operation.flops) add("arithmetic", `${amount(operation.flops / seconds)}flop/s`);
    }
    return list;
  }

  function sourceExcerpt(file, line) {
    const run = (report.sources[file] || []).find((part) => part.first <= line && line < part.first + part.lines.length);
    if (!run) return element("p", { class: "note" }, "The file is not on the machine that made this page.");
    const excerpt = element("div", { class: "excerpt", tabindex: "0", role: "region", "aria-label": `${file} around line ${line}` });
    const start = Math.max(0, line - run.first - 3);
    excerpt.innerHTML = run.lines.slice(start, line - run.first + 4).map((text, n) => lineMarkup(text, run.first + start + n, languageOfFile(file), run.first + start + n === line)).join("");
    return excerpt;
  }

  function sourcePart(operation) {
    const part = element("div", {}, element("h3", {}, "Source"));
    const places = operation.sources.length ? operation.sources : operation.source && operation.source.file ? [operation.source] : [];
    for (const place of places.slice(0, 4)) {
      const count = place.instructions > 1 ? `, ${place.instructions} instructions` : "";
      part.append(element("div", { class: "path" }, element("b", {}, `${fileName(place.file)}:${place.line}`), count), sourceExcerpt(place.file, place.line), element("div", { style: "height:8px" }));
    }
    if (places.length > 4) part.append(element("p", { class: "note" }, `and ${places.length - 4} more lines`));
    if (!places.length) part.append(element("p", { class: "note" }, "The program does not say which line this comes from."));
    if (operation.source && operation.source.op_name) part.append(element("p", { class: "path" }, operation.source.op_name));
    return part;
  }

  function buffersPart(operation) {
    const table = element("table", { class: "buffers" });
    const head = element("tr", {}, ...["", "array", "shape", "in", "size", "place"].map((title) => element("th", { scope: "col" }, title)));
    table.append(element("thead", {}, head));
    const body = element("tbody");
    for (const [role, arrays] of [["reads", operation.operands], ["writes", operation.results]]) {
      for (const array of arrays) {
        const allocation = report.allocations[array.allocation];
        const whole = Math.max(1, allocation.size);
        const map = element("i", { class: role === "reads" ? "c-library" : "c-control" });
        map.style.left = `${(100 * array.offset) / whole}%`;
        map.style.width = `${Math.max(1, (100 * array.size) / whole)}%`;
        const kind = allocation.kind === "temporary" ? "arena" : `${allocation.kind} ${allocation.kind === "constant" ? "" : allocation.index}`;
        const alive = array.alive ? `, alive from ${array.alive[0]} to ${array.alive[1] === null ? "the end" : array.alive[1]}` : "";
        const cells = [
          element("td", {}, role),
          element("td", { class: "mono", title: array.name }, array.name),
          element("td", { class: "mono", title: array.shape }, array.shape),
          element("td", {}, kind),
          element("td", {}, byteSize(array.size)),
          element("td", { title: `bytes ${array.offset} to ${array.offset + array.size} of ${allocation.size} in allocation ${array.allocation}${alive}` }, element("span", { class: "map" }, map)),
        ];
        body.append(element("tr", {}, ...cells));
      }
    }
    table.append(body);
    return element("div", {}, element("h3", {}, "Buffers"), table);
  }

  function refresh(index) {
    const operation = report.operations[index];
    summary.replaceChildren(
      element("div", { class: `c-${operation.category}` }, element("span", { class: "tag" }, kindOf(operation)), element("strong", {}, titleOf(operation))),
      element("div", { class: "shape" }, operation.shape),
      facts(operation),
      sourcePart(operation),
      buffersPart(operation),
    );
    if (operation.kernels.length) summary.append(element("h3", {}, operation.kernels.length > 1 ? "Kernels" : "Kernel"), element("div", { class: "path" }, operation.kernels.length > 1 ? `${operation.kernels[0]}, called by ${operation.kernels.slice(1).join(", ")}` : operation.kernels[0]));
    summary.scrollTop = 0;
    for (const column of columns) column.refresh();
  }
  state.listeners.push(refresh);
  if (!report.operations.length) {
    summary.append(element("p", { class: "note" }, "The program computes nothing: its results are its parameters or constants."));
    for (const column of columns) column.refresh();
  }
}
