// The timeline: a bar for each run of a thunk, loops above what runs in them.
const ROW = 28;
const AXIS = 18;

function makeTimeline(report) {
  const box = byId("timeline");
  const { timeline, thunks, operations } = report;
  const note = byId("timelinenote");
  const total = Math.max(1, timeline.total);
  if (timeline.measured) {
    const rest = timeline.left_out ? `; the ${timeline.left_out} shortest are left out` : "";
    note.textContent = `measured, the fastest of ${timeline.runs} runs on ${timeline.device}: ${duration(total)}${rest}`;
  } else {
    note.textContent = `the compiler's estimates on one core, not measurements: ${timeline.reason}`;
  }
  note.title = note.textContent;
  const depthOf = (thunk) => (thunks[thunk].parent < 0 ? 0 : 1 + depthOf(thunks[thunk].parent));
  const depths = timeline.events.map(([thunk]) => Math.min(3, depthOf(thunk)));
  const track = element("div", { class: "track" });
  track.style.height = `${AXIS + ROW * (1 + Math.max(0, ...depths))}px`;
  box.append(track);
  let scale = 1;
  let cursor = -1;

  const bars = timeline.events.map(([thunk, start, length], index) => {
    const operation = operations[thunks[thunk].operation];
    const label = operation && !operation.shared ? titleOf(operation) : thunks[thunk].name;
    const bar = element("div", { class: `event c-${operation ? operation.category : "edge"}`, role: "option", id: `event-${index}`, "aria-selected": "false", "aria-label": `${label}, ${duration(length)}`, title: `${label}\n${duration(length)} at ${duration(start)}` });
    bar.dataset.label = label;
    bar.style.left = `${(100 * start) / total}%`;
    bar.style.width = `calc(${(100 * length) / total}% - 1px)`;
    bar.style.top = `${AXIS + ROW * depths[index]}px`;
    bar.addEventListener("click", () => setCursor(index, true));
    return bar;
  });

  // Names in the bars that have room for one, and the marks of the axis.
  function ticks() {
    const pixel = (box.clientWidth * scale) / total;
    timeline.events.forEach(([, , length], index) => {
      bars[index].textContent = length * pixel > 34 ? bars[index].dataset.label : "";
    });
    for (const tick of track.querySelectorAll(".tick")) tick.remove();
    const wanted = Math.max(2, (box.clientWidth * scale) / 130);
    const rough = total / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) || rough;
    const made = [];
    for (let at = 0; at < total * (1 - 0.05 / scale) && made.length < 400; at += step) {
      const tick = element("span", { class: "tick", "aria-hidden": "true" }, at ? duration(at) : "0");
      tick.style.left = `${(100 * at) / total}%`;
      made.push(tick);
    }
    track.prepend(...made);
  }

  function zoom(factor) {
    const middle = (box.scrollLeft + box.clientWidth / 2) / track.clientWidth;
    scale = Math.max(1, Math.min(500, scale * factor));
    track.style.width = `${scale * 100}%`;
    ticks();
    if (cursor >= 0) bars[cursor].scrollIntoView({ block: "nearest", inline: "center" });
    else box.scrollLeft = middle * track.clientWidth - box.clientWidth / 2;
  }

  function setCursor(index, tell) {
    if (bars[cursor]) bars[cursor].setAttribute("aria-selected", "false");
    cursor = index;
    bars[index].setAttribute("aria-selected", "true");
    box.setAttribute("aria-activedescendant", bars[index].id);
    const frame = box.getBoundingClientRect();
    const place = bars[index].getBoundingClientRect();
    if (place.left < frame.left || place.right > frame.right) box.scrollLeft += place.left - frame.left - frame.width / 3;
    if (tell) choose(thunks[timeline.events[index][0]].operation, "timeline");
  }

  box.addEventListener("keydown", (event) => {
    if (!bars.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) setCursor(Math.max(0, Math.min(bars.length - 1, cursor + steps[event.key])), true);
    else if (event.key === "Home") setCursor(0, true);
    else if (event.key === "End") setCursor(bars.length - 1, true);
    else if (event.key === "Enter") byId("stages").querySelector("[tabindex]").focus();
    else if (event.key === "+" || event.key === "=") zoom(1.6);
    else if (event.key === "-") zoom(1 / 1.6);
    else if (event.key === "0") zoom(1 / scale);
    else return;
    event.preventDefault();
  });
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.003));
  }, { passive: false });
  state.listeners.push((index, origin) => {
    const thunk = operations[index].thunk;
    let first = -1;
    timeline.events.forEach(([number], event) => {
      bars[event].classList.toggle("same", number === thunk);
      if (number === thunk && first < 0) first = event;
    });
    if (origin !== "timeline" && first >= 0) setCursor(first, false);
  });
  if (!bars.length) box.append(element("p", { class: "none" }, "Nothing ran that takes time."));
  track.append(...bars);
  ticks();
  new ResizeObserver(ticks).observe(box);
}
