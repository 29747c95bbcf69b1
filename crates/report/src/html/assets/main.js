// Starts the page, and follows links inside it.

function makeRouter(data, readings, selection) {
  const detail = byId("detail");
  const overview = byId("overview");
  let came = "#code";

  function target() {
    const match = /^#(symbol|object|region|event)-(\d+)$/.exec(location.hash);
    if (!match) return null;
    const index = Number(match[2]);
    if (match[1] === "symbol") return data.symbols[index] ? [symbolDetail, index, "#code"] : null;
    if (match[1] === "region") return data.views?.regions[index] ? [regionDetail, index, "#events"] : null;
    if (match[1] === "event") return data.views?.events[index]?.samples > 0 ? [eventDetail, index, "#events"] : null;
    return data.objects?.objects[index] ? [objectDetail, index, "#data-objects"] : null;
  }

  function show(moved) {
    const found = target();
    detail.hidden = found === null;
    overview.hidden = found !== null;
    if (found === null) {
      detail.replaceChildren();
      const section = location.hash.length > 1 && byId(location.hash.slice(1));
      if (moved && section) section.scrollIntoView();
      return;
    }
    const [make, index, home] = found;
    came = home;
    const back = el("p", {}, el("a", { href: came, class: "back" }, "← Back to all"));
    const content = make(data, readings, selection, index).filter(Boolean);
    detail.replaceChildren(el("section", {}, back, ...content));
    if (!moved) return;
    detail.scrollIntoView();
    detail.querySelector("h2").focus({ preventScroll: true });
  }

  window.addEventListener("hashchange", () => show(true));
  selection.listen(() => {
    if (!detail.hidden) show(false);
  });
  show(location.hash.length > 1);
}

function startRun(data) {
  const selection = makeSelection(data);
  const readings = makeReadings(data, selection);
  makeTimeline(data, selection);
  makeBarViews(data, readings, selection);
  makeFlame(data);
  makeCodeTables(data, readings, selection);
  makeThreadTable(data, readings, selection);
  makeObjectTables(data, readings, selection);
  makeEventTables(data);
  makeRouter(data, readings, selection);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.type !== "search" && selection.active()) selection.select(null);
  });
}

function start() {
  startTheme();
  startTouch();
  const data = JSON.parse(byId("data").textContent);
  data.tables.forEach(makeDataTable);
  if (data.page === "run") startRun(data);
}

start();
