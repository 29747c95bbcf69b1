// One function: what it did, the data it waited for, and its instructions beside their source.

// Lines around a sampled one that are shown with it.
const AROUND = 4;

function functionLines(data, index) {
  const whole = data.functions.find((found) => found.symbol === index);
  if (whole) {
    return whole.lines.map(([address, text, at, samples, waiting, activity]) => ({
      address,
      text,
      at: at && [whole.files[at[0]], at[1]],
      samples,
      waiting,
      activity,
    }));
  }
  const own = data.instructions.filter((found) => found.symbol === index);
  const order = (a, b) => (BigInt(a.address) < BigInt(b.address) ? -1 : 1);
  return own.map((found) => ({ ...found, text: found.text ?? "code not known" })).sort(order);
}

function sourceLine(data, at) {
  const source = at && data.sources.find(({ file }) => file === at[0]);
  return source ? (source.lines[at[1] - source.first_line] ?? null) : null;
}

// Runs of lines: those near a sampled one are shown, the others can be unfolded.
function foldedRuns(lines) {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (!(line.samples > 0)) return;
    near.fill(1, Math.max(0, at - AROUND), Math.min(lines.length, at + AROUND + 1));
  });
  const runs = [];
  lines.forEach((line, at) => {
    const last = runs[runs.length - 1];
    if (last && last.shown === near[at]) last.lines.push(line);
    else runs.push({ shown: near[at], lines: [line] });
  });
  return runs;
}

function annotatedTable(data, readings, selection, index) {
  const lines = functionLines(data, index);
  if (lines.length === 0) return el("p", { class: "quiet" }, "No instruction of this function is in this file.");
  const places = new Map();
  data.instructions.forEach((found, row) => {
    if (found.symbol === index) places.set(found.address, row);
  });
  const body = el("tbody");

  // Of the whole run, or of the selected part where that was kept.
  function reading(line) {
    const row = places.get(line.address);
    if (!selection.active() || !(line.samples > 0)) return [line.samples, line.waiting];
    if (row === undefined) return [null, null];
    const parts = readings.parts("instructions", row);
    const waiting = parts && parts.reduce((sum, part, at) => sum + (data.activities[at].waiting ? part : 0), 0);
    return [readings.samples("instructions", row), waiting];
  }

  function lineRow(line, most) {
    const [samples, waiting] = reading(line);
    const key = data.activities[line.activity].key;
    const heat = el("span", { class: "heat" });
    const rest = isNumber(samples) ? samples - (waiting || 0) : 0;
    for (const [part, cls] of [[waiting, `a-${key}`], [rest, "a-executing"]]) {
      const piece = el("span", { class: cls });
      piece.style.width = `${most > 0 && part > 0 ? (part / most) * 100 : 0}%`;
      heat.append(piece);
    }
    const why = waiting > 0 ? data.activities[line.activity].label : "";
    return el(
      "tr",
      { class: samples > 0 ? "hot" : "cold" },
      el("td", { class: "count" }, line.samples > 0 ? count(samples) : ""),
      el("td", { class: "heat-cell", title: why }, heat),
      el("td", { class: "address" }, line.address),
      el("td", {}, el("code", {}, bdi(line.text)), why ? el("span", { class: "why" }, why) : null),
    );
  }

  function sourceRow(at) {
    const text = sourceLine(data, at);
    const place = el("span", { class: "quiet" }, lineWords(at));
    return el("tr", { class: "source" }, el("td", { colspan: 4 }, place, text ? el("code", {}, bdi(text)) : null));
  }

  function draw() {
    const most = Math.max(...lines.map((line) => reading(line)[0] || 0));
    let before = "";
    const rowsOf = (run) =>
      run.flatMap((line) => {
        const here = line.at ? `${line.at[0]}:${line.at[1]}` : before;
        const head = here !== before ? [sourceRow(line.at)] : [];
        before = here;
        return [...head, lineRow(line, most)];
      });
    const rows = foldedRuns(lines).flatMap((run) => {
      if (run.shown) return rowsOf(run.lines);
      before = "";
      const words = `${plural(run.lines.length, "instruction")} without samples`;
      const unfold = el("button", { type: "button", class: "fold" }, words);
      const row = el("tr", { class: "folded" }, el("td", { colspan: 4 }, unfold));
      unfold.addEventListener("click", () => {
        before = "";
        const hidden = rowsOf(run.lines);
        hidden[0].tabIndex = -1;
        row.replaceWith(...hidden);
        hidden[0].focus();
      });
      return [row];
    });
    body.replaceChildren(...rows);
  }

  draw();
  const head = ["samples", "", "address", "instruction"].map((title) => el("th", { scope: "col" }, title || "share"));
  const caption = el("caption", {}, el("span", {}, "Instructions with their source"));
  const table = el("table", { class: "annotated" }, caption, el("thead", {}, el("tr", {}, ...head)), body);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Instructions" }, table);
}

function symbolDetail(data, readings, selection, index) {
  const symbol = data.symbols[index];
  const parts = readings.parts("symbols", index);
  const share = readings.share("symbols", index);
  const [, low, high] = symbol.share;
  const range = selection.active() ? " in the selected part" : ` (${percent(low)} to ${percent(high)} %)`;
  const said = share === null ? "Too small to be kept over time by itself." : `${percent(share)} % of user time${range}.`;
  const flagged = `${percent(symbol.flagged)} % of its samples lie in flagged intervals.`;
  const bar = parts && stackedBar(data.activities, Array.from(parts), 1, splitWords(data.activities, Array.from(parts)));
  if (bar) bar.classList.add("big");
  return [
    el("h2", { tabindex: "-1" }, bdi(symbol.name)),
    el("p", { class: "quiet" }, "in ", bdi(symbol.module)),
    el("p", {}, `${said} ${flagged}`),
    bar,
    parts ? legend(data.activities, Array.from(parts)) : null,
    symbolObjects(data, index),
    data.functions.some((found) => found.symbol === index)
      ? null
      : el("p", { class: "quiet" }, "Only instructions with samples are in this file."),
    annotatedTable(data, readings, selection, index),
  ];
}

function symbolObjects(data, index) {
  const objects = data.objects ? data.objects.objects : [];
  const uses = objects.flatMap((object, at) => object.uses.filter((use) => use[0] === index).map((use) => [at, use]));
  if (uses.length === 0) return null;
  const place = el("div", { class: "table-place" });
  makeTable({
    place,
    caption: "Data it touches, over the whole run",
    noun: "object",
    count: uses.length,
    sort: [1, "descending"],
    columns: [
      {
        title: "object",
        kind: "text",
        value: (row) => objects[uses[row][0]].name,
        node: (row) => objectLink(data, uses[row][0]),
      },
      { title: "samples waiting on loads", kind: "count", value: (row) => uses[row][1][2] },
      { title: "samples", kind: "count", value: (row) => uses[row][1][1] },
      { title: "use", kind: "text", value: (row) => (uses[row][1][3] ? "writes" : "reads") },
    ],
  });
  return place;
}
