// Objects: which data was waited for, by which code, and lines that threads share.

function makeObjectTables(data, readings, selection) {
  if (!data.objects) return;
  const { objects, lines } = data.objects;
  const of = (key) => (row) => objects[row][key];
  const table = makeTable({
    place: "objects-table",
    caption: "By object",
    noun: "object",
    count: objects.length,
    sort: [1, "descending"],
    note: data.left_out.objects > 0 ? `${plural(data.left_out.objects, "object")} more are not in this file.` : null,
    columns: [
      { title: "object", kind: "text", value: of("name"), node: (row) => objectLink(data, row) },
      {
        title: "load waiting, %",
        hint: "share of all waiting on loads",
        kind: "share",
        value: (row) => loadWaiting(readings, selection, objects, row),
      },
      ...shareColumns(data, readings, "objects").slice(0, 2),
      { title: "kind", kind: "text", form: "short", value: of("kind") },
      { title: "size", kind: "bytes", value: of("size") },
      { title: "access", kind: "text", form: "short", value: of("pattern") },
      { title: "readers", hint: "threads", kind: "count", value: (row) => objects[row].readers.length },
      { title: "writers", hint: "threads", kind: "count", value: (row) => objects[row].writers.length },
      { title: "allocated at", kind: "text", value: of("site") },
    ],
  });
  selection.listen(table.refresh);
  pairTable(data, byId("pairs-table"));
  const shared = byId("lines-table");
  const none = el("p", { class: "quiet" }, "No line was seen to be shared between threads.");
  if (lines.length === 0) shared.replaceChildren(none);
  else sharedLines(data, shared, lines);
}

// Of the whole run, or of the selected part where that was kept.
function loadWaiting(readings, selection, objects, row) {
  if (!selection.active()) return objects[row].loads[0];
  const parts = readings.parts("objects", row);
  const all = readings.overall()[0];
  return parts && all > 0 ? parts[0] / all : null;
}

// Each object with each function that touches it.
function pairTable(data, place) {
  const { objects } = data.objects;
  const pairs = objects.flatMap((object, at) => object.uses.map((use) => [at, ...use]));
  if (pairs.length === 0) return;
  const all = data.overall ? data.overall[0] * data.samples : 0;
  makeTable({
    place,
    caption: "By object and function, over the whole run",
    noun: "pair",
    count: pairs.length,
    sort: [2, "descending"],
    columns: [
      {
        title: "object",
        kind: "text",
        value: (row) => objects[pairs[row][0]].name,
        node: (row) => objectLink(data, pairs[row][0]),
      },
      {
        title: "function",
        kind: "text",
        value: (row) => data.symbols[pairs[row][1]]?.name ?? "another function",
        node: (row) => symbolLink(data, pairs[row][1]),
      },
      {
        title: "load waiting, %",
        hint: "share of all waiting on loads",
        kind: "share",
        value: (row) => (all > 0 ? pairs[row][3] / all : null),
      },
      { title: "samples", kind: "count", value: (row) => pairs[row][2] },
      { title: "use", kind: "text", form: "short", value: (row) => (pairs[row][4] ? "writes" : "reads") },
    ],
  });
}

function sharedLines(data, place, lines) {
  const kinds = { false: "false sharing: different offsets", true: "same offset" };
  makeTable({
    place,
    caption: "Lines that threads share, at least one writing",
    noun: "line",
    count: lines.length,
    sort: [2, "descending"],
    columns: [
      { title: "line", kind: "text", form: "short", value: (row) => lines[row].address },
      { title: "sharing", kind: "text", value: (row) => kinds[lines[row].sharing] },
      {
        title: "memory waiting, %",
        hint: "share of all waiting for memory",
        kind: "share",
        value: (row) => lines[row].waiting[0],
      },
      { title: "samples", kind: "count", value: (row) => lines[row].samples },
      {
        title: "in",
        kind: "text",
        value: (row) => data.objects.objects[lines[row].object]?.name ?? null,
        node: (row) => (data.objects.objects[lines[row].object] ? objectLink(data, lines[row].object) : null),
      },
      {
        title: "who, at which offset",
        kind: "text",
        form: "open",
        value: (row) => usersWords(data, lines[row]),
        node: (row) => users(data, lines[row]),
      },
    ],
  });
}

function threadWords(data, row) {
  const thread = data.threads[row];
  return thread ? `${thread.name} (${thread.tid})` : "a thread of those left out";
}

function usersWords(data, line) {
  return line.uses.map(([thread, offset, symbol]) => `${threadWords(data, thread)} +${offset} ${data.symbols[symbol]?.name ?? ""}`).join(" ");
}

function users(data, line) {
  const items = line.uses.map(([thread, offset, symbol, writes, samples]) =>
    el(
      "li",
      {},
      bdi(threadWords(data, thread)),
      ` ${writes ? "writes" : "reads"} +${offset} in `,
      symbolLink(data, symbol),
      `, ${plural(samples, "sample")}`,
    ),
  );
  return el("ul", { class: "users" }, ...items);
}

// A load that overwrites its own address register leaves the next address of its chain behind.
function nextWords(object) {
  const share = percent(object.next_addresses / object.samples);
  return `${share} % are the next of a chain (mov r,[r]), taken to lie in the same data`;
}

function objectDetail(data, readings, selection, index) {
  const object = data.objects.objects[index];
  const [value, low, high] = object.loads;
  const listed = (threads) => threads.map((row) => threadWords(data, row)).join(", ") || "none seen";
  const known = object.size !== null;
  const size = known ? `${bytes(object.size)} in ${plural(object.blocks, "block")}` : `not known: ${object.size_missing}`;
  const facts = [
    ["Kind", object.kind],
    ["Size", size],
    ["Over the whole run", object.allocated],
    ["Access", object.pattern],
    ["Read by threads", listed(object.readers)],
    ["Written by threads", listed(object.writers)],
    ["Pages", object.pages],
    ["Addresses", object.next_addresses > 0 ? nextWords(object) : null],
    ["Allocated at", object.site],
    ["In file", object.source],
    ["Called from", object.callers.join(" ← ") || null],
  ].filter(([, text]) => text !== null);
  const uses = el("div", { class: "table-place" });
  makeTable({
    place: uses,
    caption: "Code that touches it, over the whole run",
    noun: "function",
    count: object.uses.length,
    sort: [1, "descending"],
    columns: [
      {
        title: "function",
        kind: "text",
        value: (row) => data.symbols[object.uses[row][0]]?.name ?? "another function",
        node: (row) => symbolLink(data, object.uses[row][0]),
      },
      { title: "samples waiting on loads", kind: "count", value: (row) => object.uses[row][2] },
      { title: "samples", kind: "count", value: (row) => object.uses[row][1] },
      { title: "use", kind: "text", value: (row) => (object.uses[row][3] ? "writes" : "reads") },
    ],
  });
  const lines = data.objects.lines.filter((line) => line.object === index);
  const shared = el("div", { class: "table-place" });
  if (lines.length > 0) sharedLines(data, shared, lines);
  const share = readings.share("objects", index);
  const part = selection.active() && share !== null;
  const here = part ? ` In the selected part it has ${percent(share)} % of the samples.` : "";
  const of = `${percent(value)} % (${percent(low)} to ${percent(high)} %) of all waiting on loads is for this data.`;
  const fact = ([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, bdi(text)));
  return [
    el("h2", { tabindex: "-1" }, bdi(object.name)),
    el("p", {}, of + here),
    el("dl", { class: "facts" }, ...facts.map(fact)),
    uses,
    shared,
  ];
}
