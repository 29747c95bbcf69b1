// Which intervals of the run count, and what falls into them.

function makeSelection(data) {
  const aggregate = data.aggregate;
  const listeners = [];
  const intervals = aggregate ? aggregate.intervals : 0;
  const flags = new Uint8Array(intervals);
  const length = data.timeline.interval_ns;
  for (let index = 0; index < intervals; index += 1) {
    const from = Math.floor(((index / intervals) * aggregate.span_ns) / length + 1e-9);
    const to = Math.ceil((((index + 1) / intervals) * aggregate.span_ns) / length - 1e-9);
    flags[index] = data.timeline.intervals.slice(from, to).some((interval) => interval.flagged) ? 1 : 0;
  }
  // range: [from, to) in intervals, "flagged", or null for the whole run.
  let range = null;
  let kept = {};

  function inside(index) {
    if (range === null) return true;
    return range === "flagged" ? flags[index] === 1 : index >= range[0] && index < range[1];
  }

  function addTracks(tracks, mask, sums) {
    for (const { activity, cells } of tracks) {
      let at = 0;
      for (let index = 0; index < cells.length; index += 2) {
        at += cells[index];
        if (mask[at] === 1) sums[activity] += cells[index + 1];
      }
    }
    return sums;
  }

  // Samples of a view inside the selection: by row, and of all rows together.
  function sums(view) {
    if (!kept[view]) {
      const mask = new Uint8Array(intervals);
      for (let index = 0; index < intervals; index += 1) mask[index] = inside(index) ? 1 : 0;
      const size = data.activities.length;
      const rows = new Map();
      const total = new Float64Array(size);
      const rest = addTracks(aggregate[view].rest, mask, new Float64Array(size));
      for (const row of aggregate[view].rows) {
        rows.set(row.index, addTracks(row.tracks, mask, new Float64Array(size)));
      }
      for (const parts of [rest, ...rows.values()]) parts.forEach((part, index) => (total[index] += part));
      kept[view] = { rows, rest, total, samples: total.reduce((sum, part) => sum + part, 0) };
    }
    return kept[view];
  }

  function select(next) {
    range = next;
    kept = {};
    listeners.forEach((listener) => listener());
  }

  return {
    possible: intervals > 1,
    intervals,
    spanNs: aggregate ? aggregate.span_ns : length * data.timeline.intervals.length,
    hasFlags: flags.includes(1),
    active: () => range !== null,
    range: () => range,
    select,
    sums,
    listen: (listener) => listeners.push(listener),
  };
}
