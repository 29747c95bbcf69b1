// The run over time, and a range of it to look at.

const MOST_COLUMNS = 600;

// Intervals side by side; several share a column where there are too many.
function timelineColumns(intervals) {
  const each = Math.ceil(intervals.length / MOST_COLUMNS);
  const columns = [];
  for (let from = 0; from < intervals.length; from += each) {
    const part = intervals.slice(from, from + each);
    const seen = part.filter((interval) => interval.loads !== null);
    const samples = seen.reduce((sum, interval) => sum + interval.samples, 0);
    const mean = (key) => seen.reduce((sum, interval) => sum + interval[key] * interval.samples, 0) / samples;
    columns.push({
      from,
      width: part.length,
      samples,
      loads: samples > 0 ? mean("loads") : null,
      memory: samples > 0 ? mean("memory") : null,
      running: part[0].running_threads,
      flagged: part.some((interval) => interval.flagged),
    });
  }
  return columns;
}

function columnWords(column, length) {
  const time = `${nanos(column.from * length)} to ${nanos((column.from + column.width) * length)}`;
  if (column.loads === null) return `${time}: nothing ran in user mode`;
  const running = isNumber(column.running) ? `, ${significant(column.running)} threads running` : "";
  const flag = column.flagged ? ", flagged" : "";
  const shares = `waiting on loads ${percent(column.loads)} %, for memory ${percent(column.memory)} %`;
  return `${time}: ${shares} of ${plural(column.samples, "sample")}${running}${flag}`;
}

function drawColumns(columns, total, threshold) {
  const drawing = svg("svg", { viewBox: `0 0 ${total} 100`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const column of columns) {
    const box = (cls, y, height) =>
      svg("rect", { class: cls, x: column.from, width: column.width, y, height: Math.max(0, height) });
    if (column.flagged) drawing.append(box("flag", 0, 100), box("flag-strip", 97, 3));
    if (column.loads === null) continue;
    const [loads, memory] = [column.loads * 100, column.memory * 100];
    drawing.append(box("t-other", 100 - memory, memory - loads), box("t-loads", 100 - loads, loads));
  }
  drawing.append(svg("line", { class: "grid", x1: 0, x2: total, y1: 50, y2: 50 }));
  const y = 100 - threshold * 100;
  drawing.append(svg("line", { class: "threshold", x1: 0, x2: total, y1: y, y2: y }));
  return drawing;
}

function makeTimeline(data, selection) {
  const holder = byId("timeline");
  const { intervals, interval_ns: length, threshold } = data.timeline;
  if (intervals.length < 2) {
    holder.replaceChildren(el("p", { class: "quiet" }, "Too short a run to show it over time."));
    return;
  }
  const columns = timelineColumns(intervals);
  const flagged = intervals.filter((interval) => interval.flagged).length;
  const total = selection.spanNs / length;
  const drawing = drawColumns(columns, total, threshold);
  const shade = el("div", { class: "shade", hidden: true });
  const strip = el("div", { class: "strip" }, drawing, shade);
  const readout = el("p", { class: "quiet readout" });
  const hint = selection.possible ? "Drag over the time line to look at a part of the run." : "";
  readout.textContent = hint;
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => el("span", {}, nanos(part * selection.spanNs)));
  const share = percent(threshold);
  const words =
    `Waiting for memory over ${nanos(intervals.length * length)}, in intervals of ${nanos(length)}; ` +
    `height: share of each interval's user time. ${flagged} of ${intervals.length} intervals are flagged: ` +
    `waiting on loads above ${share} % (dashed line).`;
  const keys = el(
    "ul",
    { class: "legend" },
    el("li", { class: "key" }, el("span", { class: "swatch a-loads" }), "waiting on loads"),
    el("li", { class: "key" }, el("span", { class: "swatch a-stores" }), "on stores, atomics and fences"),
    el("li", { class: "key" }, el("span", { class: "swatch flagged" }), "flagged"),
  );
  holder.replaceChildren(
    el("p", {}, words),
    keys,
    el(
      "div",
      { class: "strip-frame" },
      el("div", { class: "strip-axis", "aria-hidden": "true" }, ...["100 %", "50 %", "0 %"].map((text) => el("span", {}, text))),
      strip,
      el("div", { class: "marks", "aria-hidden": "true" }, ...marks),
    ),
    readout,
    selection.possible ? rangeControls(selection) : noRange(),
    intervalTable(columns, length),
  );
  strip.addEventListener("pointermove", (event) => {
    const at = (along(strip, event) * total) | 0;
    const column = columns.find(({ from, width }) => at >= from && at < from + width);
    readout.textContent = column ? columnWords(column, length) : hint;
  });
  strip.addEventListener("pointerleave", () => (readout.textContent = hint));
  if (selection.possible) dragToSelect(strip, shade, selection);
}

function along(strip, event) {
  const box = strip.getBoundingClientRect();
  return Math.min(0.999999, Math.max(0, (event.clientX - box.left) / box.width));
}

function noRange() {
  return el("p", { class: "quiet" }, "No range can be selected: this report was made without samples over time.");
}

function dragToSelect(strip, shade, selection) {
  const cell = (event) => Math.floor(along(strip, event) * selection.intervals);
  let start = null;
  let last = null;
  strip.classList.add("selectable");
  strip.addEventListener("pointerdown", (event) => {
    start = last = cell(event);
    strip.setPointerCapture(event.pointerId);
    selection.select([start, start + 1]);
  });
  // Once a frame is enough while the pointer moves.
  let waiting = null;
  const select = () => {
    waiting = null;
    if (start !== null) selection.select([Math.min(start, last), Math.max(start, last) + 1]);
  };
  strip.addEventListener("pointermove", (event) => {
    if (start === null) return;
    last = cell(event);
    waiting ??= requestAnimationFrame(select);
  });
  const end = () => {
    select();
    start = null;
  };
  strip.addEventListener("pointerup", end);
  strip.addEventListener("pointercancel", end);
  selection.listen(() => {
    const range = selection.range();
    shade.hidden = !Array.isArray(range);
    if (shade.hidden) return;
    shade.style.left = `${(range[0] / selection.intervals) * 100}%`;
    shade.style.width = `${((range[1] - range[0]) / selection.intervals) * 100}%`;
  });
}

// The same by keyboard: two sliders, and buttons for the whole run and what is flagged.
function rangeControls(selection) {
  const last = selection.intervals;
  const time = (interval) => nanos((interval / last) * selection.spanNs);
  const slider = (value) => el("input", { type: "range", min: 0, max: last, step: 1, value, input: onSlide });
  const from = slider(0);
  const to = slider(last);
  const whole = el("button", { type: "button", id: "select-whole", click: () => selection.select(null) }, "Whole run");
  const flagged = el(
    "button",
    { type: "button", id: "select-flagged", disabled: !selection.hasFlags, click: () => selection.select("flagged") },
    "Flagged intervals only",
  );
  const status = el("p", { class: "status", role: "status", id: "selection-status" });

  function onSlide(event) {
    let [a, b] = [Number(from.value), Number(to.value)];
    if (a >= b) {
      if (event.target === from) a = Math.max(0, b - 1);
      else b = Math.min(last, a + 1);
      if (a >= b) b = a + 1;
    }
    selection.select(a === 0 && b === last ? null : [a, b]);
  }

  function show() {
    const range = selection.range();
    const [a, b] = Array.isArray(range) ? range : [0, last];
    from.value = a;
    to.value = b;
    from.setAttribute("aria-valuetext", time(a));
    to.setAttribute("aria-valuetext", time(b));
    whole.setAttribute("aria-pressed", String(range === null));
    flagged.setAttribute("aria-pressed", String(range === "flagged"));
    const { samples, total } = selection.sums("threads");
    const what = range === null ? "Whole run" : range === "flagged" ? "Flagged intervals" : `${time(a)} to ${time(b)}`;
    const loads = samples > 0 ? `, ${percent(total[0] / samples)} % waiting on loads` : "";
    const effect = range === null ? "" : " Bars and tables below show this part only.";
    status.textContent = `${what}: ${plural(samples, "sample")}${loads}.${effect}`;
  }

  selection.listen(show);
  show();
  return el(
    "div",
    { class: "range", role: "group", "aria-label": "Part of the run to look at" },
    el("label", {}, "From ", from),
    el("label", {}, "To ", to),
    whole,
    flagged,
    status,
  );
}

function intervalTable(columns, length) {
  const place = el("div", { class: "table-place" });
  const details = el("details", {}, el("summary", {}, "The time line as a table"), place);
  details.addEventListener("toggle", () => {
    if (!details.open || place.firstChild) return;
    const of = (key) => (row) => columns[row][key];
    makeTable({
      place,
      caption: "Intervals",
      noun: "interval",
      count: columns.length,
      columns: [
        { title: "from", kind: "nanos", value: (row) => columns[row].from * length },
        { title: "samples", kind: "count", value: of("samples") },
        { title: "loads, %", kind: "share", value: of("loads") },
        { title: "memory, %", kind: "share", value: of("memory") },
        { title: "threads running", kind: "number", value: of("running") },
        { title: "flag", kind: "text", form: "short", value: (row) => (columns[row].flagged ? "flagged" : null) },
      ],
    });
  });
  return details;
}
