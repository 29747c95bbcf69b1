// Events by function, by region, and by function within a region (kruse2011 chapter 5).

function viewSymbol(data, index) {
  const symbol = data.views.symbols[index];
  const known = symbol.finding !== null && data.symbols[symbol.finding];
  return known ? el("a", { href: `#symbol-${symbol.finding}` }, bdi(symbol.name)) : bdi(symbol.name);
}

// Cycles first, stalled cycles beside them, then the others that have samples.
function eventOrder(views) {
  const first = [views.cycles, views.stalled].filter((event) => event !== null);
  const others = views.events.map((_, event) => event).filter((event) => !first.includes(event));
  return [...first, ...others].filter((event) => views.events[event].samples > 0);
}

function stalledColumn(views, of) {
  return {
    title: views.stalled_title,
    hint: "with the interval that the numbers of samples give",
    kind: "text",
    form: "short",
    value: (row) => (of(row) ? of(row)[0] : null),
    node: (row) => {
      const share = of(row);
      return share && el("span", {}, `${percent(share[0])} (${percent(share[1])} to ${percent(share[2])})`);
    },
  };
}

function symbolColumns(data, at) {
  const { symbols } = data.views;
  return [
    {
      title: "symbol",
      kind: "text",
      value: (row) => symbols[at(row)].name,
      node: (row) => viewSymbol(data, at(row)),
    },
    {
      title: "library",
      kind: "text",
      form: "short",
      value: (row) => symbols[at(row)].library,
      node: (row) => bdi(symbols[at(row)].library, { title: symbols[at(row)].path }),
    },
  ];
}

function signatureColumn(data, at) {
  return { title: "complete signature", kind: "text", value: (row) => data.views.symbols[at(row)].signature };
}

// One event, as the paper shows it: samples, percentage, symbol, library, signature.
function eventTable(data, table) {
  const place = el("div", { class: "table-place" });
  const at = (row) => table.rows[row][0];
  makeTable({
    place,
    caption: table.heading,
    noun: "symbol",
    count: table.rows.length,
    note: table.left_out > 0 ? `${plural(table.left_out, "symbol")} more are not listed.` : null,
    columns: [
      ...symbolColumns(data, at),
      { title: "samples", kind: "count", value: (row) => table.rows[row][1] },
      { title: "%", hint: "of the samples in the heading", kind: "share", value: (row) => table.rows[row][2] },
      signatureColumn(data, at),
    ],
  });
  return place;
}

function makeEventTables(data) {
  const { views } = data;
  if (!views) return;
  const { events, symbols, regions } = views;
  makeTable({
    place: "events-table",
    caption: "What was sampled",
    noun: "event",
    count: events.length,
    columns: [
      {
        title: "event",
        kind: "text",
        value: (row) => events[row].name,
        node: (row) =>
          events[row].samples > 0 ? el("a", { href: `#event-${row}` }, bdi(events[row].name)) : bdi(events[row].name),
      },
      { title: "samples", kind: "count", value: (row) => events[row].samples },
      { title: "in the kernel", kind: "count", value: (row) => (events[row].is_event ? events[row].in_kernel : null) },
      { title: "how often", kind: "text", form: "open", value: (row) => events[row].period },
    ],
  });
  const order = eventOrder(views);
  const shares = new Map();
  for (const table of views.by_symbol) {
    shares.set(table.event, new Map(table.rows.map(([symbol, , share]) => [symbol, share])));
  }
  const share = (event) => ({
    title: `${events[event].name}, %`,
    hint: "of the samples of this event; – beyond its first twenty symbols",
    kind: "share",
    value: (row) => shares.get(event)?.get(row) ?? null,
  });
  makeTable({
    place: "event-symbols-table",
    caption: "By symbol",
    noun: "symbol",
    count: symbols.length,
    sort: [2, "descending"],
    columns: [
      ...symbolColumns(data, (row) => row),
      ...order.map(share),
      stalledColumn(views, (row) => symbols[row].stalled),
      signatureColumn(data, (row) => row),
    ],
  });
  if (!byId("event-regions-table")) return;
  makeTable({
    place: "event-regions-table",
    caption: "By region",
    noun: "region",
    count: regions.length,
    sort: [1, "descending"],
    note: views.regions_left_out > 0 ? `${plural(views.regions_left_out, "region")} more are not listed.` : null,
    columns: [
      {
        title: "region",
        kind: "text",
        value: (row) => regions[row].name,
        node: (row) => el("a", { href: `#region-${row}` }, bdi(regions[row].name)),
      },
      ...order.map((event) => ({
        title: `${events[event].name}, %`,
        hint: "of the samples of this event",
        kind: "share",
        value: (row) => regions[row].shares[event],
      })),
      stalledColumn(views, (row) => regions[row].stalled),
    ],
  });
}

function regionDetail(data, readings, selection, index) {
  const region = data.views.regions[index];
  const order = eventOrder(data.views);
  const tables = [...region.tables].sort((a, b) => order.indexOf(a.event) - order.indexOf(b.event));
  const share = region.stalled;
  const words = share && `${data.views.stalled_title}: ${percent(share[0])} (${percent(share[1])} to ${percent(share[2])})`;
  return [
    el("h2", { tabindex: "-1" }, "Region ", bdi(region.name)),
    words ? el("p", {}, words) : null,
    ...tables.map((table) => eventTable(data, table)),
  ];
}

function eventDetail(data, readings, selection, index) {
  const event = data.views.events[index];
  const table = data.views.by_symbol.find((table) => table.event === index);
  return [el("h2", { tabindex: "-1" }, bdi(event.name)), eventTable(data, table)];
}
