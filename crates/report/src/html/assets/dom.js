// Elements, built from text only: nothing that a program named is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// An element; functions among the attributes listen to the event of that name.
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

// A name a program chose: its direction of writing must not turn its surroundings.
function bdi(text, attributes = {}) {
  return el("bdi", attributes, text);
}

// The end of a path says more than its beginning.
function fileName(path) {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}
