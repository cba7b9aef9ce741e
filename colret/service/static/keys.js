// What keys do, besides what they do by themselves: Enter opens a link, Esc closes a dialog.

import { $ } from "./dom.js";

const DIRECTIONS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

export function onKeys(actions) {
  const inViewer = {
    ArrowLeft: () => actions.turn(-1),
    ArrowRight: () => actions.turn(1),
    n: () => actions.nextHit(1),
    p: () => actions.nextHit(-1),
    t: actions.nextToken,
    h: actions.heat,
    z: actions.zoom,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("#key").open) return;
    const writing = event.target.closest("input, select, textarea");
    if ($("#viewer").open) {
      const action = inViewer[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    } else if (event.key === "/" && !writing) {
      event.preventDefault();
      actions.search();
    } else if (event.key === "Escape" && writing) {
      writing.blur();
    } else if (DIRECTIONS[event.key] && (!writing || (event.key === "ArrowDown" && writing.id === "text"))) {
      if (actions.move(DIRECTIONS[event.key])) event.preventDefault();
    }
  });
}

// Moves the focus among cards as they lie; returns whether it did.
export function moveFocus(list, direction) {
  const cards = [...list.querySelectorAll("a.card")];
  const at = cards.indexOf(document.activeElement);
  if (at < 0) {
    if (direction !== "down" && direction !== "right") return false;
    cards[0]?.focus();
    return cards.length > 0;
  }
  const next = direction === "left" ? at - 1 : direction === "right" ? at + 1 : vertical(cards, at, direction === "down" ? 1 : -1);
  cards[next]?.focus();
  return next >= 0 && next < cards.length;
}

// The card in the same column of the next row, by where cards are.
function vertical(cards, at, step) {
  const { left, top } = cards[at].getBoundingClientRect();
  for (let i = at + step; i >= 0 && i < cards.length; i += step) {
    const other = cards[i].getBoundingClientRect();
    if (Math.abs(other.left - left) < 2 && Math.abs(other.top - top) > 2) return i;
  }
  return -1;
}
