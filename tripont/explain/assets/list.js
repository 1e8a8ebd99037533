// The list of operations: search, order, arrow keys.
function makeList(report) {
  const list = byId("list");
  const search = byId("search");
  const order = byId("order");
  let visible = [];
  const rows = report.operations.map((operation) => {
    const source = sourceOf(operation);
    const where = source ? `${fileName(source.file)}:${source.line}` : "";
    const bar = element("em");
    bar.style.width = `${(48 * operation.time) / report.longest}px`;
    const time = element("div", { class: "t" }, operation.time ? duration(operation.time) : "");
    if (operation.time) time.append(bar);
    const row = element(
      "div",
      { class: `row c-${operation.category}`, role: "option", id: `operation-${operation.index}`, "aria-selected": "false", title: operation.shape },
      element("i", { "aria-hidden": "true" }),
      element("div", {}, element("b", {}, titleOf(operation)), element("span", {}, [kindOf(operation), where].filter(Boolean).join(" · "))),
      time,
    );
    row.addEventListener("click", () => choose(operation.index, "list"));
    const opNames = operation.sources.flatMap((place) => [...(place.op_names || []), place.file]);
    operation.searchable = [operation.id, operation.kind, operation.opcode, operation.library_call, operation.shape, ...operation.kernels, operation.source && operation.source.op_name, ...opNames]
      .join(" ")
      .toLowerCase();
    return row;
  });

  function refresh() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    visible = report.operations.filter((operation) => words.every((word) => operation.searchable.includes(word)));
    const keys = { time: (o) => -o.time, bytes: (o) => -(o.bytes_read + o.bytes_written), flops: (o) => -(o.flops || 0) };
    if (keys[order.value]) visible.sort((a, b) => keys[order.value](a) - keys[order.value](b) || a.index - b.index);
    list.replaceChildren(...visible.map((operation) => rows[operation.index]));
    if (!visible.length) list.append(element("p", { class: "none" }, "Nothing matches."));
    byId("count").textContent = words.length ? `${visible.length} of ${rows.length} operations` : `${rows.length} operations`;
  }

  function move(to) {
    if (!visible.length) return;
    choose(visible[Math.max(0, Math.min(visible.length - 1, to))].index, "list");
  }
  const place = () => visible.findIndex((operation) => operation.index === state.chosen);
  list.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(list.clientHeight / 42) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) move(place() + steps[event.key]);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(visible.length - 1);
    else if (event.key === "Enter") byId("stages").querySelector("[tabindex]").focus();
    else return;
    event.preventDefault();
  });
  search.addEventListener("input", () => {
    refresh();
    if (search.value && visible.length && place() < 0) move(0);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      search.value = "";
      refresh();
      list.focus();
    } else if (event.key === "ArrowDown" || event.key === "Enter") {
      list.focus();
      if (place() < 0) move(0);
    } else return;
    event.preventDefault();
  });
  order.addEventListener("change", refresh);
  state.listeners.push((index) => {
    for (const selected of list.querySelectorAll('[aria-selected="true"]')) selected.setAttribute("aria-selected", "false");
    rows[index].setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", rows[index].id);
    if (rows[index].isConnected) rows[index].scrollIntoView({ block: "nearest" });
  });
  refresh();
  return { step: (by) => move(place() + by) };
}
