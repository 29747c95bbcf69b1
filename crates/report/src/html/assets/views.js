// The views of a run: bars and tables by thread, function, instruction and object, of the selected part of the run.

const TOP_BARS = 10;

// What rows of each view are in the selection. Parts are samples by activity; null: not kept over time by itself.
function makeReadings(data, selection) {
  const scaled = (split, samples) => split && split.map((share) => share * samples);
  const whole = {
    threads: (row) => scaled(data.threads[row].split, data.threads[row].share * data.samples),
    symbols: (row) => scaled(data.symbols[row].split, data.symbols[row].samples),
    instructions: (row) => instructionParts(data.instructions[row]),
    objects: (row) => objectParts(data, data.objects.objects[row]),
  };
  function instructionParts(found) {
    const parts = data.activities.map(() => 0);
    const at = (key) => data.activities.findIndex((activity) => activity.key === key);
    parts[found.activity] += found.waiting;
    parts[at("undecided")] += found.undecided;
    parts[at("executing")] += Math.max(0, found.samples - found.waiting - found.undecided);
    return parts;
  }
  const parts = (view, row) => (selection.active() ? (selection.sums(view).rows.get(row) ?? null) : whole[view](row));
  const samples = (view, row) => parts(view, row)?.reduce((sum, part) => sum + part, 0) ?? null;
  const all = () => (selection.active() ? selection.sums("threads").samples : data.samples);
  return {
    parts,
    samples,
    all,
    share: (view, row) => {
      const found = samples(view, row);
      return found === null || !(all() > 0) ? null : found / all();
    },
    // Of the row's own samples: those of the activities that pass.
    part: (view, row, passes) => {
      const found = parts(view, row);
      const total = samples(view, row);
      if (found === null || !(total > 0)) return null;
      return data.activities.reduce((sum, activity, index) => sum + (passes(activity) ? found[index] : 0), 0) / total;
    },
    overall: () => {
      if (selection.active()) return Array.from(selection.sums("threads").total);
      return data.overall && data.overall.map((share) => share * data.samples);
    },
  };
}

// Findings give an object's part of all waiting; the rest of its samples did not wait.
function objectParts(data, object) {
  const parts = data.activities.map(() => 0);
  const overall = data.overall || parts;
  const at = (key) => data.activities.findIndex((activity) => activity.key === key);
  parts[at("loads")] = object.loads[0] * overall[at("loads")] * data.samples;
  parts[at("stores")] = object.other * (overall[at("stores")] + overall[at("atomics")]) * data.samples;
  const waiting = parts.reduce((sum, part) => sum + part, 0);
  parts[at("executing")] = Math.max(0, object.samples - waiting);
  return parts;
}

function symbolLink(data, index) {
  const symbol = data.symbols[index];
  return symbol ? el("a", { href: `#symbol-${index}` }, bdi(symbol.name)) : el("span", {}, "another function");
}

function objectLink(data, index) {
  return el("a", { href: `#object-${index}` }, bdi(data.objects.objects[index].name));
}

function threadLabel(thread) {
  return bdi(`${thread.name} (${thread.tid})`);
}

function largestWait(activities, parts) {
  if (!parts) return null;
  const total = parts.reduce((sum, part) => sum + part, 0);
  let best = -1;
  activities.forEach((activity, index) => {
    if (activity.waiting && parts[index] > (parts[best] ?? 0)) best = index;
  });
  if (best < 0 || parts[best] < 0.05 * total) return "nothing";
  return activities[best].label.replace(/^waiting (on|for) /, "");
}

function makeBarViews(data, readings, selection) {
  const views = [
    ["symbols", "by function", data.symbols.length, (row) => symbolLink(data, row)],
    ["threads", "by thread", data.threads.length, (row) => threadLabel(data.threads[row])],
  ];
  if (data.objects && data.objects.objects.length > 0) {
    views.push(["objects", "by object", data.objects.objects.length, (row) => objectLink(data, row)]);
  }
  let chosen = views[0];
  const whole = el("div");
  const rows = el("div");
  const choice = views.map((view, index) => {
    const radio = el("input", { type: "radio", name: "bar-view", value: view[0], checked: index === 0 });
    radio.addEventListener("change", () => {
      chosen = view;
      draw();
    });
    return el("label", {}, radio, view[1]);
  });

  function draw() {
    const overall = readings.overall();
    if (!overall || !(readings.all() > 0)) {
      whole.replaceChildren(el("p", { class: "quiet" }, "No samples here."));
      rows.replaceChildren();
      return;
    }
    const words = `All threads: ${splitWords(data.activities, overall)}`;
    whole.replaceChildren(stackedBar(data.activities, overall, 1, words), legend(data.activities, overall));
    whole.firstChild.classList.add("big");
    const [view, , number, label] = chosen;
    const order = [];
    for (let row = 0; row < number; row += 1) {
      const share = readings.share(view, row);
      if (share > 0) order.push([row, share]);
    }
    order.sort((a, b) => b[1] - a[1]);
    const top = order.slice(0, TOP_BARS).map(([row, share]) => {
      const parts = Array.from(readings.parts(view, row));
      return { label: label(row), parts, share, words: splitWords(data.activities, parts) };
    });
    const more = order.length > TOP_BARS ? `${order.length - TOP_BARS} more are in the tables below.` : "";
    const of = "Length: share of user time, the longest filling the row.";
    rows.replaceChildren(barList(data.activities, top), el("p", { class: "quiet" }, `${of} ${more}`));
  }

  byId("bar-views").replaceChildren(
    whole,
    el("fieldset", { class: "choice" }, el("legend", {}, "Show user time"), ...choice),
    rows,
  );
  selection.listen(draw);
  draw();
}

function shareColumns(data, readings, view) {
  const part = (title, hint, passes) => ({
    title,
    hint,
    kind: "share",
    value: (row) => readings.part(view, row, passes),
  });
  return [
    {
      title: "user time, %",
      hint: "share of the samples of all threads",
      kind: "share",
      value: (row) => readings.share(view, row),
    },
    {
      title: "split",
      hint: "sorts by the share that waits",
      kind: "split",
      value: (row) => readings.part(view, row, (activity) => activity.waiting),
      node: (row) => {
        const parts = readings.parts(view, row);
        if (!parts || !parts.some((value) => value > 0)) return null;
        return stackedBar(data.activities, Array.from(parts), 1, splitWords(data.activities, Array.from(parts)));
      },
    },
    part("loads, %", "waiting on loads, share of its own user time", (activity) => activity.key === "loads"),
    part("memory, %", "waiting on loads, stores, atomics and fences, share of its own user time", (a) => a.memory),
  ];
}

function leftOut([number, share], noun) {
  return number > 0 ? `${plural(number, noun)} more with ${percent(share)} % of user time are not in this file.` : null;
}

function makeCodeTables(data, readings, selection) {
  const { symbols, instructions, activities } = data;
  const symbolTable = makeTable({
    place: "symbols-table",
    caption: "Functions",
    noun: "function",
    count: symbols.length,
    sort: [1, "descending"],
    note: leftOut(data.left_out.symbols, "function"),
    columns: [
      { title: "function", kind: "text", value: (row) => symbols[row].name, node: (row) => symbolLink(data, row) },
      ...shareColumns(data, readings, "symbols"),
      { title: "waits for", kind: "text", form: "short", value: (row) => largestWait(activities, readings.parts("symbols", row)) },
      { title: "samples", kind: "count", value: (row) => readings.samples("symbols", row) },
      {
        title: "flagged, %",
        hint: "share of its samples in flagged intervals, over the whole run",
        kind: "share",
        value: (row) => symbols[row].flagged,
      },
      {
        title: "module",
        kind: "text",
        form: "short",
        value: (row) => symbols[row].module,
        node: (row) => bdi(fileName(symbols[row].module), { title: symbols[row].module }),
      },
    ],
  });
  const waiting = (row) => readings.part("instructions", row, (activity) => activity.waiting);
  const instructionTable = makeTable({
    place: "instructions-table",
    caption: "Instructions",
    noun: "instruction",
    count: instructions.length,
    sort: [1, "descending"],
    note: leftOut(data.left_out.instructions, "instruction"),
    columns: [
      {
        title: "instruction",
        kind: "text",
        value: (row) => instructions[row].text ?? instructions[row].address,
        node: (row) => el("code", {}, bdi(instructions[row].text ?? instructions[row].address)),
      },
      { title: "user time, %", kind: "share", value: (row) => readings.share("instructions", row) },
      { title: "waiting, %", hint: "share of its own samples", kind: "share", value: waiting },
      { title: "for", kind: "text", form: "short", value: (row) => activities[instructions[row].activity].label.replace("waiting on ", "") },
      { title: "access", kind: "text", form: "short", value: (row) => instructions[row].pattern },
      {
        title: "function",
        kind: "text",
        value: (row) => symbols[instructions[row].symbol]?.name ?? null,
        node: (row) => symbolLink(data, instructions[row].symbol),
      },
      { title: "line", kind: "text", form: "short", value: (row) => lineWords(instructions[row].at) },
      { title: "address", kind: "text", form: "short", value: (row) => instructions[row].address },
    ],
  });
  selection.listen(symbolTable.refresh);
  selection.listen(instructionTable.refresh);
}

function lineWords(at) {
  return at ? `${fileName(at[0])}:${at[1]}` : null;
}

function makeThreadTable(data, readings, selection) {
  const of = (key) => (row) => data.threads[row][key];
  const table = makeTable({
    place: "threads-table",
    caption: `By thread; times are of the whole run${data.has_losses ? ", estimated since records were lost" : ""}`,
    noun: "thread",
    count: data.threads.length,
    sort: [1, "descending"],
    note: leftOut(data.left_out.threads, "thread"),
    columns: [
      { title: "thread", kind: "text", value: (row) => `${data.threads[row].name} (${data.threads[row].tid})` },
      ...shareColumns(data, readings, "threads"),
      { title: "process", kind: "id", value: of("pid") },
      { title: "user", kind: "nanos", value: of("user_ns") },
      { title: "kernel", kind: "nanos", value: of("kernel_ns") },
      { title: "blocked", kind: "nanos", value: of("blocked_ns") },
      { title: "waiting for a CPU", kind: "nanos", value: of("preempted_ns") },
    ],
  });
  selection.listen(table.refresh);
}
