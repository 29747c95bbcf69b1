// Call chains as a flame graph: the width of a function is its time with all it called, callees are below their caller,
// the colour says how much of that time waits for memory.

// Narrower parts of the whole width are not drawn.
const NARROWEST = 0.0015;
const HEATS = 5;

function makeFlame(data) {
  const calls = data.calls;
  if (!calls || calls.nodes.length < 2) return;
  const { nodes } = calls;
  const children = nodes.map(() => []);
  nodes.forEach((node, at) => at > 0 && children[node.parent].push(at));
  children.forEach((list) => list.sort((a, b) => nodes[b].samples - nodes[a].samples));
  const waits = (at) => nodes[at].waiting / nodes[at].samples;
  const frames = el("div", { class: "flame", role: "img", "aria-label": flameWords(nodes, children) });
  const readout = el("p", { class: "readout" });
  const whole = el("button", { type: "button", click: () => zoom(0) }, "Whole program");

  function words(at) {
    const share = percent(nodes[at].samples / nodes[0].samples);
    return `${share} % of user time in it and what it calls, ${percent(waits(at))} % of that waiting for memory`;
  }

  function tell(at) {
    const { symbol } = nodes[at];
    const known = symbol !== null && data.symbols[symbol];
    readout.replaceChildren(known ? symbolLink(data, symbol) : bdi(nodes[at].name), `: ${words(at)}`);
  }

  function frame(at, left, width, depth) {
    const heat = Math.round(waits(at) * HEATS);
    const shown = el(
      "button",
      { type: "button", tabindex: "-1", class: `frame heat-${heat}`, title: `${nodes[at].name}: ${words(at)}`, click: () => zoom(at) },
      bdi(nodes[at].name),
    );
    shown.addEventListener("pointerenter", () => tell(at));
    shown.style.left = `${left * 100}%`;
    shown.style.width = `${width * 100}%`;
    shown.style.top = `${depth * 1.45}rem`;
    frames.append(shown);
  }

  // The callers of the chosen one fill the width above it.
  function zoom(chosen) {
    const above = [];
    for (let at = chosen; at !== 0; at = nodes[at].parent) above.unshift(nodes[at].parent);
    frames.replaceChildren();
    above.forEach((at, depth) => frame(at, 0, 1, depth));
    let deepest = above.length;
    const open = [[chosen, 0, 1, above.length]];
    while (open.length > 0) {
      const [at, left, width, depth] = open.pop();
      frame(at, left, width, depth);
      deepest = Math.max(deepest, depth);
      let from = left;
      for (const child of children[at]) {
        const part = (nodes[child].samples / nodes[chosen].samples);
        if (part >= NARROWEST) open.push([child, from, part, depth + 1]);
        from += part;
      }
    }
    frames.style.height = `${(deepest + 1) * 1.45}rem`;
    whole.hidden = chosen === 0;
    tell(chosen);
  }

  const alone = calls.alone > 0 ? ` ${plural(calls.alone, "sample")} came without a chain.` : "";
  const left = calls.left_out > 0 ? ` ${plural(calls.left_out, "call")} too small to be seen are left out.` : "";
  const hint = "Width: time of a function with all it calls, over the whole run. Choose one to look at it closer.";
  byId("flame").replaceChildren(
    el("p", { class: "quiet" }, `${hint}${alone}${left}`),
    el("p", { class: "heat-scale" }, "waiting for memory: none ", ...heatScale(), " all"),
    el("div", { class: "tools" }, whole),
    el("div", { class: "flame-frame" }, frames),
    readout,
  );
  zoom(0);
}

function heatScale() {
  return Array.from({ length: HEATS + 1 }, (_, heat) => el("span", { class: `swatch heat-${heat}` }));
}

// The widest chain, for whoever cannot see the drawing.
function flameWords(nodes, children) {
  const names = [];
  for (let at = 0; children[at].length > 0 && names.length < 20; ) {
    [at] = children[at];
    names.push(nodes[at].name);
  }
  return `Flame graph of ${plural(nodes.length - 1, "call")}. The largest chain: ${names.join(", ")}.`;
}
