// Puts together what is asked, what the service answers, and what keys do.

import * as api from "./api.js";
import { $, count, element } from "./dom.js";
import { moveFocus, onKeys } from "./keys.js";
import { documentCard, hitCard, summary, verdictText } from "./results.js";
import "./session.js";
import { FILTERS, STEP, address, asked, hasFilters, isSearch, read, sameSearch, withoutFilters } from "./state.js";
import * as viewer from "./viewer.js";

const form = $("#search");
const text = $("#text");
const list = $("#hits");
const BROWSED = 24; // documents at a time

let state = null;
let hits = [];
let request = null;
let mostHits = 100;

// Where to go: a part of the state that changes.
function go(change, { replace = false } = {}) {
  const next = { ...state, ...change };
  const method = replace ? "replaceState" : "pushState";
  if (address(next) !== address(state)) history[method](null, "", address(next));
  return apply(next);
}

async function apply(next) {
  const before = state;
  state = next;
  fillForm();
  if (!sameSearch(before, next)) {
    request?.abort();
    request = new AbortController();
    await (isSearch(next) ? search(request.signal) : browse(request.signal));
    if (state !== next) return;
  }
  if (state.open) await viewer.show(state, hits, (change) => go(change, { replace: true }));
  else viewer.close();
}

function fillForm() {
  if (document.activeElement !== text || !text.value) text.value = state.text;
  for (const name of FILTERS) {
    const field = form.elements[name];
    if (field.type === "checkbox") field.checked = Boolean(state[name]);
    else field.value = state[name];
  }
  $("#filters").classList.toggle("used", hasFilters(state));
  document.title = state.text ? `${state.text} – colret` : "colret";
}

async function search(signal) {
  busy(true);
  const began = performance.now();
  try {
    const answer = await question(signal);
    hits = answer.hits;
    list.replaceChildren(...hits.map((hit) => hitCard(hit, address({ ...state, open: [hit.doc_id, hit.page] }))));
    $("#status").textContent = hits.length ? summary(answer, (performance.now() - began) / 1000) : "";
    tell(verdictText(answer), "verdict");
    $("#more").hidden = hits.length < state.k || state.k >= mostHits || hits.length === answer.n_pages;
    busy(false);
  } catch (error) {
    failed(error);
  }
}

function question(signal) {
  if (state.image) return api.searchImage(state.image, asked(state, false), signal);
  if (state.like) return api.like(state.like, asked(state, false), signal);
  return api.search(asked(state, true), signal);
}

async function browse(signal) {
  busy(true);
  hits = [];
  try {
    const [index, part] = await Promise.all([api.index(signal), api.documents(0, BROWSED, signal)]);
    mostHits = index.most_hits;
    $("#status").textContent = `${count(index.n_pages, "page")} of ${count(index.n_documents, "document")}`;
    list.replaceChildren();
    browsed(part);
    tell("");
    busy(false);
  } catch (error) {
    failed(error);
  }
}

function browsed(part) {
  list.append(...part.documents.map((each) => documentCard(each, address({ ...state, open: [each.doc_id, 1] }))));
  const more = $("#more");
  more.hidden = part.next === null;
  more.dataset.after = part.next ?? "";
}

async function more() {
  if (isSearch(state)) return go({ k: Math.min(state.k + STEP, mostHits) }, { replace: true });
  browsed(await api.documents(Number($("#more").dataset.after), BROWSED, request.signal).catch(failed) ?? { documents: [], next: null });
}

function busy(is) {
  $("#progress").hidden = !is;
  list.setAttribute("aria-busy", is);
}

function failed(error) {
  if (error.name === "AbortError") return;
  busy(false);
  hits = [];
  list.replaceChildren();
  $("#status").textContent = "";
  $("#more").hidden = true;
  tell(error.message, "error");
  if (error.status === 400 && hasFilters(state)) $("#filters").open = true;
}

function tell(message, kind = "") {
  const notice = $("#notice");
  notice.hidden = !message;
  notice.className = kind;
  notice.replaceChildren(message);
  if (state.image) notice.before($("#example") ?? example());
  else $("#example")?.remove();
}

function example() {
  const url = URL.createObjectURL(state.image);
  const image = element("img", { src: url, alt: "The image that was searched for", onload: () => URL.revokeObjectURL(url) });
  return element("p", { id: "example" }, "Pages like", image);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const fields = Object.fromEntries(FILTERS.map((name) => [name, new FormData(form).get(name) ?? ""]));
  text.blur();
  go({ ...fields, text: text.value.trim(), like: null, image: null, open: null, token: null, k: STEP });
});
$("#clear").addEventListener("click", () => go({ ...withoutFilters(state), k: STEP }));
$("#image").addEventListener("change", (event) => {
  const [image] = event.target.files;
  event.target.value = "";
  if (image) go({ text: "", like: null, image, open: null, k: STEP });
});
$("#more").addEventListener("click", more);

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-page], #like, #home");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  if (link.id === "home") text.value = "";
  if (link.dataset.page) return openPage(link.dataset.page);
  go({ ...read(new URL(link.href).search), image: null });
});

function openPage(id) {
  const [document, number] = id.split(":");
  go({ open: [document, Number(number)], token: null });
}

const turn = (by) => {
  const [id, number] = state.open;
  if (number + by >= 1 && number + by <= viewer.pages()) go({ open: [id, number + by], token: null }, { replace: true });
};
const nextHit = (by) => {
  const at = hits.findIndex((hit) => hit.doc_id === state.open[0] && hit.page === state.open[1]);
  const hit = hits[at < 0 ? 0 : at + by];
  if (hit) go({ open: [hit.doc_id, hit.page], token: null }, { replace: true });
};
const leave = () => {
  const opened = state.open?.join(":");
  go({ open: null, token: null });
  $(`a[data-page="${opened}"]`)?.focus();
};
const nextToken = () => {
  const n = viewer.tokens().length;
  if (n) go({ token: state.token === null ? 0 : state.token + 1 < n ? state.token + 1 : null }, { replace: true });
};

$("#page-back").addEventListener("click", () => turn(-1));
$("#page-on").addEventListener("click", () => turn(1));
$("#hit-back").addEventListener("click", () => nextHit(-1));
$("#hit-on").addEventListener("click", () => nextHit(1));
$("#zoom").addEventListener("click", viewer.toggleZoom);
$("#close").addEventListener("click", leave);
$("#viewer").addEventListener("cancel", (event) => {
  event.preventDefault();
  leave();
});

onKeys({
  search: () => text.select(),
  move: (direction) => moveFocus(list, direction),
  turn,
  nextHit,
  nextToken,
  zoom: viewer.toggleZoom,
  heat: () => go({ token: state.token === -1 ? null : -1 }, { replace: true }),
});
if (matchMedia("(pointer: fine)").matches && !location.search) text.focus();
addEventListener("popstate", () => {
  text.value = "";
  apply(read());
});
apply(read());
