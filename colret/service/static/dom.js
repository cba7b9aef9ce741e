// Elements made of text, never of HTML: names of files are other people's.

export const $ = (selector, within = document) => within.querySelector(selector);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Highlights count characters as Python does: a letter outside the basic plane is one.
export function marked(text, highlights) {
  const characters = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [start, end] of highlights) {
    parts.push(characters.slice(at, start).join(""), element("mark", {}, characters.slice(start, end).join("")));
    at = end;
  }
  return [...parts, characters.slice(at).join("")];
}

// Places a box, in points, over the image of a page.
export function place(box, [left, top, right, bottom], { width, height }) {
  box.style.left = `${(100 * left) / width}%`;
  box.style.top = `${(100 * top) / height}%`;
  box.style.width = `${(100 * (right - left)) / width}%`;
  box.style.height = `${(100 * (bottom - top)) / height}%`;
  return box;
}

export function fileName(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

export function folderName(path) {
  return path.slice(0, Math.max(path.lastIndexOf("/"), 0));
}

export function count(n, noun) {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}
