// Numbers as people read them. What was not measured is a dash, never a zero.

const ABSENT = "–";

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// A share as per cent, without the sign; tenths below ten.
function percent(share) {
  if (!isNumber(share)) return ABSENT;
  const value = share * 100;
  if (value > 0 && value < 0.05) return "<0.1";
  return value < 9.95 ? value.toFixed(1) : value.toFixed(0);
}

function significant(value) {
  if (!isNumber(value)) return ABSENT;
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value))) + 1;
  return value.toFixed(Math.min(20, Math.max(0, 3 - magnitude)));
}

function count(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en-GB") : ABSENT;
}

function bytes(value) {
  if (!isNumber(value)) return ABSENT;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(value % 1 >= 0.05 && value < 100 ? 1 : 0)} ${units[unit]}`;
}

function nanos(value) {
  if (!isNumber(value)) return ABSENT;
  if (value === 0) return "0 s";
  const size = Math.abs(value);
  if (size < 1e3) return `${significant(value)} ns`;
  if (size < 1e6) return `${significant(value / 1e3)} µs`;
  if (size < 1e9) return `${significant(value / 1e6)} ms`;
  return `${significant(value / 1e9)} s`;
}

function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

function points(share) {
  return isNumber(share) ? (share * 100).toFixed(0) : ABSENT;
}

const WRITERS = { text: String, points, id: String, number: significant, count, share: (v) => percent(v), bytes, nanos };

function written(kind, value) {
  return value === null || value === undefined ? ABSENT : WRITERS[kind](value);
}
