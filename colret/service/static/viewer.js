// One page, large: its heat for each token, its regions, the pages around it.

import { imageUrl, page as askPage, whyNot } from "./api.js";
import { $, element, fileName, folderName, marked, place } from "./dom.js";

const SIZE = 1600;
const viewer = $("#viewer");
const sheet = $(".sheet", viewer);
const [base, heat, boxes, missing] = [".base", ".heat", ".boxes", ".missing"].map((name) => $(name, sheet));

let request = null;
let shown = null; // the service's answer
let text = "";

// Shows a page; `go` is called with what another button asks to be shown instead.
export async function show(state, hits, go) {
  const [id, number] = state.open;
  const another = shown?.doc_id !== id || shown.page !== number || text !== state.text;
  if (!viewer.open) viewer.showModal();
  if (another) {
    request?.abort();
    request = new AbortController();
    text = state.text;
    shown = null;
    blank();
    head(hits, id, number);
    try {
      shown = await askPage(id, number, text, request.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      missing.hidden = false;
      missing.replaceChildren(element("strong", {}, error.message));
      return;
    }
    draw(state, go);
  }
  head(hits, id, number);
  choose(state.token);
}

export function close() {
  request?.abort();
  shown = null;
  if (viewer.open) viewer.close();
}

export const pages = () => shown?.n_pages ?? 0;
export const tokens = () => shown?.evidence?.tokens ?? [];

export function toggleZoom() {
  const zoomed = viewer.classList.toggle("zoomed");
  $("#zoom").setAttribute("aria-pressed", zoomed);
}

function blank() {
  base.removeAttribute("src");
  heat.removeAttribute("src");
  heat.classList.remove("there");
  sheet.classList.remove("there");
  boxes.replaceChildren();
  missing.hidden = true;
  for (const name of ["#tokens", "#regions", "#words"]) $(name).hidden = true;
}

function head(hits, id, number) {
  const at = hits.findIndex((hit) => hit.doc_id === id && hit.page === number);
  const known = shown ?? hits.find((hit) => hit.doc_id === id);
  $("#viewer-file").textContent = known ? fileName(known.file) : "";
  $("#viewer-folder").textContent = known ? folderName(known.file) : "";
  $("#viewer-page").textContent = known ? `page ${number} of ${known.n_pages}` : `page ${number}`;
  $("#page-back").disabled = number <= 1;
  $("#page-on").disabled = !known || number >= known.n_pages;
  $(".steps.hits").hidden = hits.length < 2;
  $("#viewer-hit").textContent = at < 0 ? `not among the ${hits.length} found` : `result ${at + 1} of ${hits.length}`;
  $("#hit-back").disabled = at === 0;
  $("#hit-on").disabled = at === hits.length - 1;
}

function draw(state, go) {
  const evidence = shown.evidence;
  const signal = request.signal;
  if (evidence) sheet.style.aspectRatio = `${evidence.width} / ${evidence.height}`;
  else sheet.style.removeProperty("aspect-ratio");
  base.alt = `Page ${shown.page} of ${fileName(shown.file)}`;
  base.onload = () => sheet.classList.add("there");
  base.onerror = () => gone(signal);
  base.src = imageUrl(shown.doc_id, shown.page, { size: SIZE });
  if (evidence) drawEvidence(evidence, go);
  const words = $("#words");
  words.hidden = !(shown.snippet || shown.text) && shown.indexed;
  $("p", words).replaceChildren(
    ...(shown.snippet ? marked(shown.snippet, shown.highlights) : [shown.indexed ? shorten(shown.text) : "Nothing that can be found: a blank page, perhaps."]),
  );
  $("#like").hidden = !shown.indexed;
  $("#like").href = `?like=${shown.doc_id}:${shown.page}`;
}

function drawEvidence(evidence, go) {
  boxes.replaceChildren(
    ...evidence.regions.map((region, i) =>
      place(element("span", { class: i ? "region" : "region first" }, element("b", {}, `${i + 1}`)), region.box, evidence),
    ),
  );
  const chip = (label, token, title) =>
    element("button", { type: "button", role: "radio", "data-token": `${token}`, title, onclick: () => go({ token }) }, label);
  const all = evidence.tokens.map((each, i) => chip(each.token, i, `best similarity ${each.similarity.toFixed(2)}`));
  $(".chips").replaceChildren(chip("whole query", null), ...all, chip("off", -1));
  $("#tokens").hidden = !evidence.tokens.length;
  $(".coarse").hidden = !evidence.coarse;
  $(".coarse").textContent = evidence.coarse ? "This index keeps pooled vectors, so places are rough." : "";
  $("#regions").hidden = !evidence.regions.length;
  $("#regions ol").replaceChildren(
    ...evidence.regions.map((region, i) => {
      const point = (on) => () => boxes.children[i]?.classList.toggle("pointed", on);
      const share = element("span", { class: "faint" }, ` ${Math.round(100 * region.score)}\u00a0%`);
      return element("li", { onmouseenter: point(true), onmouseleave: point(false) }, region.text || region.tokens.join(" "), share);
    }),
  );
}

// Shows the heat of a token; of all for null; none for -1.
function choose(token) {
  const evidence = shown?.evidence;
  if (!evidence) return;
  for (const each of $(".chips").children) each.setAttribute("aria-checked", each.dataset.token === `${token}`);
  for (const each of boxes.querySelectorAll(".best")) each.remove();
  const known = token === null || (token >= 0 && token < evidence.tokens.length);
  if (!known || !evidence.tokens.length) {
    heat.classList.remove("there");
    heat.removeAttribute("src");
    return;
  }
  if (token !== null) boxes.append(place(element("span", { class: "best" }), evidence.tokens[token].box, evidence));
  const url = imageUrl(shown.doc_id, shown.page, { size: SIZE, text, overlay: "heat", token });
  heat.onload = () => heat.classList.add("there");
  heat.onerror = () => heat.classList.remove("there");
  if (heat.getAttribute("src") !== url) heat.src = url;
}

async function gone(signal) {
  const page = shown;
  const failure = await whyNot(base.src, signal).catch(() => null);
  if (shown !== page || !page) return;
  heat.classList.remove("there");
  const why = failure?.status === 410 ? "The file is gone or has changed since it was ingested, so this page cannot be shown." : failure?.message;
  const lead = page.text ? "These are its words:" : "";
  missing.replaceChildren(element("strong", {}, why ?? "The image did not come."), ` ${lead}`, element("p", {}, page.text));
  missing.hidden = false;
}

function shorten(words) {
  return words.length > 400 ? `${words.slice(0, 400)} …` : words;
}
