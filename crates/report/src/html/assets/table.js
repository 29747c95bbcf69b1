// Tables that sort, filter and page: only the rows of one page are in the document, so that ten thousand stay quick.

const PAGE_ROWS = 20;
const FILTER_FROM = 8;

// place: an element, or its id. rows are 0 … count - 1. columns: { title, hint, kind, value(row), node(row), form };
// form of a text: "short" keeps one line, "open" shows all of it, "trust" has the colour of its word, others show the
// beginning.
// sort: [column, "ascending" | "descending"] at the start. noun: what a row is.
function makeTable({ place, caption, noun, columns, count: rowCount, sort, note }) {
  const state = { sort: sort || null, filter: "", page: 0, order: [] };
  const texts = [];
  const rows = rowCount;
  // Only names can be searched for; a page of them needs no searching.
  const filters = rows >= FILTER_FROM && columns[0].kind === "text";

  const status = el("p", { class: "status", role: "status" });
  const input = el("input", { type: "search", autocomplete: "off", spellcheck: "false", input: onFilter });
  const tools = el(
    "div",
    { class: "tools" },
    filters ? el("label", {}, `Filter ${noun}s `, input) : null,
    status,
  );
  const heads = columns.map((column, index) => {
    const button = el("button", { type: "button", click: () => sortBy(index) }, column.title);
    return el("th", { scope: "col", class: column.kind, title: column.hint || null }, button);
  });
  const body = el("tbody");
  const table = el("table", {}, el("caption", {}, el("span", {}, caption)), el("thead", {}, el("tr", {}, ...heads)), body);
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
  const where = el("span");
  const steps = [
    ["First", () => 0],
    ["Previous", () => state.page - 1],
    ["Next", () => state.page + 1],
    ["Last", () => pages() - 1],
  ].map(([name, to]) => el("button", { type: "button", click: () => turn(to()) }, name));
  const pager = el("div", { class: "pager" }, steps[0], steps[1], where, steps[2], steps[3]);
  const holder = typeof place === "string" ? byId(place) : place;
  holder.replaceChildren(tools, scroll, pager, note ? el("p", { class: "quiet" }, note) : "");

  function pages() {
    return Math.max(1, Math.ceil(state.order.length / PAGE_ROWS));
  }

  function textOf(row) {
    if (texts[row] === undefined) {
      const parts = columns.filter((column) => column.kind === "text").map((column) => column.value(row));
      texts[row] = parts.filter(Boolean).join("\n").toLowerCase();
    }
    return texts[row];
  }

  // Absent values come last whichever way the others go.
  function arrange() {
    const wanted = state.filter.toLowerCase();
    const order = [];
    for (let row = 0; row < rows; row += 1) {
      if (wanted === "" || textOf(row).includes(wanted)) order.push(row);
    }
    if (state.sort) {
      const [index, direction] = state.sort;
      const keys = new Array(rows);
      for (const row of order) keys[row] = columns[index].value(row);
      const sign = direction === "ascending" ? 1 : -1;
      order.sort((a, b) => {
        const [x, y] = [keys[a] ?? null, keys[b] ?? null];
        if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1;
        if (x < y) return -sign;
        return x > y ? sign : a - b;
      });
    }
    state.order = order;
  }

  function cell(column, row, first) {
    const value = column.value(row);
    const content = column.node ? column.node(row) : null;
    const tag = first ? "th" : "td";
    const missing = value === null || value === undefined;
    let shown = content ?? (column.kind === "text" && value ? bdi(value) : written(column.kind, value));
    if (column.kind === "text" && !column.form && !missing) shown = el("div", { class: "clip", title: value }, shown);
    const names = [column.kind, missing ? "absent" : "", column.form === "short" ? "short" : ""];
    if (column.form === "trust" && !missing) shown = el("span", { class: `trust ${value}` }, value);
    return el(tag, { class: names.join(" ").trim(), scope: first ? "row" : null }, shown);
  }

  function draw() {
    state.page = Math.min(Math.max(0, state.page), pages() - 1);
    const from = state.page * PAGE_ROWS;
    const shown = state.order.slice(from, from + PAGE_ROWS);
    body.replaceChildren(
      ...shown.map((row) => el("tr", {}, ...columns.map((column, index) => cell(column, row, index === 0)))),
    );
    heads.forEach((head, index) => {
      const sorted = state.sort && state.sort[0] === index;
      if (sorted) head.setAttribute("aria-sort", state.sort[1]);
      else head.removeAttribute("aria-sort");
    });
    const all = plural(rows, noun);
    const filtered = state.filter === "" ? all : `${count(state.order.length)} of ${all} match`;
    status.textContent = pages() > 1 ? `${filtered}, ${from + 1} to ${from + shown.length} shown` : filtered;
    where.textContent = `Page ${state.page + 1} of ${pages()}`;
    pager.hidden = pages() === 1;
    tools.hidden = !filters && pages() === 1;
    steps.forEach((step, index) => {
      step.disabled = index < 2 ? state.page === 0 : state.page === pages() - 1;
    });
  }

  function sortBy(index) {
    const first = columns[index].kind === "text" ? "ascending" : "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const again = state.sort && state.sort[0] === index && state.sort[1] === first;
    state.sort = [index, again ? other : first];
    state.page = 0;
    refresh();
  }

  function onFilter() {
    state.filter = input.value.trim();
    state.page = 0;
    refresh();
  }

  function turn(page) {
    state.page = page;
    draw();
  }

  // Again, after values changed.
  function refresh() {
    arrange();
    draw();
  }

  refresh();
  return { refresh };
}

// A table that came whole from the data. A value may lead to another place of the page.
function makeDataTable(data) {
  if (!byId(data.id)) return;
  const text = (value) => value?.text ?? value;
  const link = (value) => (value?.to ? el("a", { href: value.to }, bdi(value.text)) : null);
  makeTable({
    place: data.id,
    caption: data.caption,
    noun: "row",
    count: data.rows.length,
    columns: data.columns.map((column, index) => ({
      title: column.title,
      kind: column.kind === "trust" ? "text" : column.kind,
      form: column.kind === "trust" ? "trust" : null,
      value: (row) => text(data.rows[row][index]),
      node: (row) => link(data.rows[row][index]),
    })),
  });
}
