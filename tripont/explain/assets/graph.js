// The drawn graph: positions come with the report; here it is shown, moved, zoomed and walked through.
const NODE_HEIGHT = 44;
const SMALLEST_FIT = 0.6;
const FAR = 0.42; // scale under which nodes are only blocks of colour

function makeGraph(report) {
  const box = byId("graph");
  const svg = drawn("svg", { "aria-hidden": "true" });
  const scene = drawn("g");
  svg.append(scene);
  box.append(svg);
  const view = { x: 0, y: 0, scale: 1 };
  const trail = []; // names of the computations around the one that is shown
  let graph = null;
  let name = "";
  let nodes = []; // SVG elements
  let paths = [];
  let cursor = -1;
  let touched = false; // the user has moved or zoomed: the view is not fitted again by itself

  function apply() {
    scene.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    svg.classList.toggle("far", view.scale < FAR);
  }

  function edgePath(a, b, bends) {
    const points = [[a.x, a.y + NODE_HEIGHT / 2], ...bends, [b.x, b.y - NODE_HEIGHT / 2]];
    let path = `M${points[0]}`;
    for (let n = 1; n < points.length; n += 1) {
      const [x0, y0] = points[n - 1];
      const [x1, y1] = points[n];
      const middle = (y0 + y1) / 2;
      path += `C${x0},${middle} ${x1},${middle} ${x1},${y1}`;
    }
    return path;
  }

  function drawNode(node, index) {
    const operation = report.operations[node.operation];
    const colour = operation ? operation.category : node.kind.startsWith("fusion") ? node.kind.split(" ")[1] || "loop" : node.kind;
    const group = drawn("g", { class: `node c-${colour} ${node.kind === "edge" ? "edge" : ""}`, transform: `translate(${node.x - node.w / 2} ${node.y - NODE_HEIGHT / 2})` });
    const size = { width: node.w, height: NODE_HEIGHT, rx: 7 };
    group.append(drawn("rect", { class: "box", ...size }), drawn("rect", { class: "tint", ...size }));
    const label = drawn("text", { x: 11, y: 18 });
    label.textContent = node.label;
    const detail = drawn("text", { class: "d", x: 11, y: 34 });
    detail.textContent = node.detail;
    group.append(label, detail);
    if (operation && operation.time) {
      group.append(drawn("rect", { class: "heat", x: 4, y: NODE_HEIGHT - 4.5, height: 3, rx: 1.5, width: Math.max(2, ((node.w - 8) * operation.time) / report.longest) }));
    }
    const title = drawn("title");
    title.textContent = operation && operation.time ? `${node.name}\n${duration(operation.time)}` : node.name;
    group.append(title);
    group.addEventListener("click", () => {
      setCursor(index, true);
      box.focus({ preventScroll: true });
    });
    group.addEventListener("dblclick", () => enter(index));
    return group;
  }

  function show(computation) {
    graph = report.graphs[computation];
    name = computation;
    cursor = -1;
    scene.replaceChildren();
    if (!graph) return;
    const edges = drawn("g", { class: "edges" });
    paths = graph.edges.map(([a, b, bends]) => {
      const far = graph.nodes[b].layer - graph.nodes[a].layer > 6;
      return drawn("path", { d: edgePath(graph.nodes[a], graph.nodes[b], bends), class: far ? "long" : "" });
    });
    edges.append(...paths);
    nodes = graph.nodes.map(drawNode);
    const shapes = drawn("g");
    shapes.append(...nodes);
    scene.append(edges, shapes);
    byId("graphchoice").value = computation;
    showCrumbs();
    touched = false;
    fit();
    const index = graph.nodes.findIndex((node) => node.operation === state.chosen && node.operation >= 0);
    if (index >= 0) setCursor(index, false);
  }

  function showCrumbs() {
    const crumbs = byId("crumbs");
    crumbs.replaceChildren();
    trail.forEach((around, depth) => {
      const button = element("button", { type: "button" }, around);
      button.addEventListener("click", () => leave(depth));
      crumbs.append(button, "›");
    });
    if (trail.length) crumbs.append(element("span", {}, name));
  }

  function fit() {
    if (!graph) return;
    const { clientWidth: width, clientHeight: height } = box;
    const scale = Math.min(width / graph.width, height / (graph.height + 10), 1.15);
    const whole = scale >= SMALLEST_FIT; // else it would be unreadable: it starts at its top instead
    view.scale = whole ? scale : Math.min(1, Math.max(SMALLEST_FIT, (0.95 * width) / graph.width));
    view.x = (width - graph.width * view.scale) / 2;
    view.y = whole ? (height - graph.height * view.scale) / 2 : 8;
    apply();
  }

  function zoom(factor, x = box.clientWidth / 2, y = box.clientHeight / 2) {
    const scale = Math.max(0.02, Math.min(3, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    touched = true;
    apply();
  }

  // Moves the view until a node is well inside it.
  function reveal(node) {
    const { clientWidth: width, clientHeight: height } = box;
    const x = node.x * view.scale + view.x;
    const y = node.y * view.scale + view.y;
    const marginX = Math.min(140, width / 4);
    const marginY = Math.min(70, height / 4);
    if (x < marginX || x > width - marginX) view.x += width / 2 - x;
    if (y < marginY || y > height - marginY) view.y += height / 2 - y;
    apply();
  }

  function setCursor(index, tell) {
    if (nodes[cursor]) nodes[cursor].classList.remove("cursor");
    cursor = index;
    const node = graph.nodes[index];
    nodes[index].classList.add("cursor");
    graph.edges.forEach(([a, b], edge) => {
      paths[edge].classList.toggle("in", b === index);
      paths[edge].classList.toggle("out", a === index);
    });
    reveal(node);
    byId("graphstatus").textContent = `${node.name}, ${node.label}, ${node.detail}`;
    if (tell) choose(node.operation, "graph");
  }

  function neighbours(index, down) {
    const found = graph.edges.filter(([a, b]) => (down ? a : b) === index).map(([a, b]) => (down ? b : a));
    const from = graph.nodes[index];
    return found.sort((p, q) => Math.abs(graph.nodes[p].x - from.x) - Math.abs(graph.nodes[q].x - from.x) || Math.abs(graph.nodes[p].layer - from.layer) - Math.abs(graph.nodes[q].layer - from.layer));
  }

  function beside(index, right) {
    const from = graph.nodes[index];
    let best = -1;
    graph.nodes.forEach((node, other) => {
      const distance = right ? node.x - from.x : from.x - node.x;
      if (node.layer === from.layer && distance > 0 && (best < 0 || distance < Math.abs(graph.nodes[best].x - from.x))) best = other;
    });
    return best;
  }

  function enter(index) {
    const inside = graph.nodes[index] && graph.nodes[index].inside.find((computation) => report.graphs[computation]);
    if (!inside) return;
    trail.push(name);
    show(inside);
    if (cursor < 0 && graph.nodes.length) setCursor(0, false);
  }

  function leave(depth) {
    if (!trail.length) return;
    const inner = name;
    const to = trail[depth];
    trail.length = depth;
    show(to);
    const index = graph.nodes.findIndex((node) => node.inside.includes(inner));
    if (index >= 0) setCursor(index, false);
  }

  box.addEventListener("keydown", (event) => {
    if (!graph || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = cursor < 0 ? 0 : cursor;
    let to = -1;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") to = cursor < 0 ? 0 : neighbours(at, event.key === "ArrowDown")[0];
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") to = cursor < 0 ? 0 : beside(at, event.key === "ArrowRight");
    else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = graph.nodes.length - 1;
    else if (event.key === "Enter") enter(at);
    else if (event.key === "Backspace" || event.key === "Escape") leave(trail.length - 1);
    else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
    if (to >= 0) setCursor(to, true);
  });
  box.addEventListener("wheel", (event) => {
    event.preventDefault();
    const frame = box.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey || event.deltaMode !== 0 || !event.shiftKey) {
      zoom(Math.exp(-event.deltaY * 0.0016), event.clientX - frame.left, event.clientY - frame.top);
    } else {
      view.x -= event.deltaY;
      apply();
    }
  }, { passive: false });
  let grabbed = null;
  box.addEventListener("pointerdown", (event) => {
    if (event.button === 0) grabbed = { x: event.clientX - view.x, y: event.clientY - view.y, id: event.pointerId, moved: false };
  });
  box.addEventListener("pointermove", (event) => {
    if (!grabbed) return;
    const x = event.clientX - grabbed.x;
    const y = event.clientY - grabbed.y;
    if (!grabbed.moved && Math.hypot(x - view.x, y - view.y) < 4) return;
    if (!grabbed.moved) box.setPointerCapture(grabbed.id);
    grabbed.moved = true;
    box.classList.add("dragging");
    view.x = x;
    view.y = y;
    touched = true;
    apply();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    box.addEventListener(end, () => {
      grabbed = null;
      box.classList.remove("dragging");
    });
  }
  byId("zoomin").addEventListener("click", () => zoom(1.25));
  byId("zoomout").addEventListener("click", () => zoom(0.8));
  byId("fit").addEventListener("click", () => {
    touched = false;
    fit();
  });

  const choice = byId("graphchoice");
  for (const computation of Object.keys(report.graphs).sort((a, b) => (b === report.entry) - (a === report.entry))) {
    choice.append(element("option", { value: computation }, computation === report.entry ? `${computation} (entry)` : computation));
  }
  choice.addEventListener("change", () => {
    trail.length = 0;
    if (choice.value !== report.entry) trail.push(report.entry);
    show(choice.value);
  });
  const kinds = [...new Set(report.operations.map((operation) => operation.category))];
  const words = { loop: "loop fusion", reduce: "reduce fusion", row: "row fusion", transpose: "transpose fusion", dot: "dot", library: "library call", control: "control flow", plain: "other kernel" };
  byId("legend").append(...kinds.map((kind) => element("span", { class: `c-${kind}` }, words[kind] || kind)));

  state.listeners.push((index, origin) => {
    if (origin === "graph") return;
    const home = report.operations[index].computation;
    if (home !== name && report.graphs[home]) {
      trail.length = 0;
      if (home !== report.entry) trail.push(report.entry);
      show(home);
    }
    const node = graph ? graph.nodes.findIndex((candidate) => candidate.operation === index) : -1;
    if (node >= 0) setCursor(node, false);
  });
  new ResizeObserver(() => {
    if (!touched) fit();
    if (cursor >= 0) reveal(graph.nodes[cursor]);
  }).observe(box);
  show(report.entry);
  return { fit };
}
