// Stacked bars: what the core did, as parts of a length.

// parts: by activity. length: of the whole bar, 0 to 1. The words say for everyone what the colours say.
function stackedBar(activities, parts, length, words) {
  const total = parts.reduce((sum, part) => sum + part, 0);
  const bar = el("span", { class: "bar", role: "img", "aria-label": words });
  const filled = el("span", { class: "filled" });
  filled.style.width = `${Math.min(1, Math.max(0, length)) * 100}%`;
  parts.forEach((part, index) => {
    if (!(part > 0) || !(total > 0)) return;
    const label = `${activities[index].label} ${percent(part / total)} %`;
    const piece = el("span", { class: `a-${activities[index].key}`, title: label });
    piece.style.width = `${(part / total) * 100}%`;
    filled.append(piece);
  });
  bar.append(filled);
  return bar;
}

function splitWords(activities, parts) {
  const total = parts.reduce((sum, part) => sum + part, 0);
  if (!(total > 0)) return "no samples";
  const shown = activities.map((activity, index) => [activity.label, parts[index] / total]);
  const said = shown.filter(([, share]) => share >= 0.005).sort((a, b) => b[1] - a[1]);
  return said.map(([label, share]) => `${label} ${percent(share)} %`).join(", ");
}

// Names of the colours with their shares of the whole.
function legend(activities, parts) {
  const total = parts ? parts.reduce((sum, part) => sum + part, 0) : 0;
  const keys = activities.map((activity, index) => {
    const share = total > 0 ? parts[index] / total : null;
    const text = share === null ? activity.label : `${activity.label} ${percent(share)} %`;
    const faint = share !== null && share < 0.0005;
    return el("li", { class: faint ? "key faint" : "key" }, el("span", { class: `swatch a-${activity.key}` }), text);
  });
  return el("ul", { class: "legend" }, ...keys);
}

// Rows of named bars. rows: { label: Node, parts, share, words }.
function barList(activities, rows) {
  const longest = Math.max(...rows.map((row) => row.share || 0), 1e-9);
  const items = rows.map((row) =>
    el(
      "li",
      {},
      el("span", { class: "bar-label", title: row.label.textContent }, row.label),
      stackedBar(activities, row.parts, (row.share || 0) / longest, row.words),
      el("span", { class: "bar-figure" }, `${percent(row.share)} %`),
    ),
  );
  return el("ol", { class: "bar-list" }, ...items);
}
