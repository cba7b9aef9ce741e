// The pages that were found, as a grid of cards.

import { imageUrl, whyNot } from "./api.js";
import { count, element, fileName, folderName, marked, place } from "./dom.js";

const THUMBNAIL = 720; // pixels: twice what is shown, for fine screens
const A4 = { width: 595, height: 842 };

const LANES = { visual: "by late interaction", text: "by words", both: "by meaning and words" };

export function summary(answer, seconds) {
  const scored = answer.n_scored < answer.n_pages ? `, the ${answer.n_scored.toLocaleString("en")} likeliest scored` : "";
  const found = `${count(answer.hits.length, "page")} of ${answer.n_pages.toLocaleString("en")}`;
  return `${found}${scored}, ${LANES[answer.lane]}, in ${seconds.toFixed(2)} s`;
}

// What to say where no page answers; "" where one may.
export function verdictText(answer) {
  if (!answer.hits.length) return "No page has these words.";
  const verdict = answer.verdict;
  if (!verdict?.unanswered) return "";
  if (verdict.probability === null) return "No page answers this: none stands out from the others. The nearest are:";
  return `No page answers this (${Math.round(100 * verdict.probability)} % likely that one does). The nearest are:`;
}

export function hitCard(hit, href) {
  const others = hit.paths.length - 1;
  const remarks = [hit.contents_page && "contents page", hit.below_floor && "probably no answer", others > 0 && `also in ${count(others, "other file")}`];
  return element(
    "li",
    {},
    element(
      "a",
      { class: hit.below_floor ? "card weak" : "card", href, "data-page": `${hit.doc_id}:${hit.page}` },
      thumbnail(hit.doc_id, hit.page, hit.evidence, hit.snippet),
      element(
        "span",
        { class: "about" },
        element("span", { class: "title", title: hit.file }, element("span", { class: "rank" }, `${hit.rank}`), element("span", { class: "file" }, fileName(hit.file))),
        element("span", { class: "faint" }, element("span", {}, `page ${hit.page} of ${hit.n_pages}`), score(hit)),
        element("span", { class: "snippet" }, ...marked(hit.snippet, hit.highlights)),
        ...remarks.filter(Boolean).map((remark) => element("span", { class: "remark" }, remark)),
      ),
    ),
  );
}

export function documentCard(document, href) {
  const unread = document.status !== "done";
  const about = element(
    "span",
    { class: "about" },
    element("span", { class: "title", title: document.file }, element("span", { class: "file" }, fileName(document.file))),
    element("span", { class: "faint" }, unread ? `could not be read (${document.reason})` : count(document.n_pages, "page")),
    element("span", { class: "snippet" }, folderName(document.file)),
  );
  if (unread) return element("li", {}, element("span", { class: "card weak" }, about));
  return element(
    "li",
    {},
    element("a", { class: "card", href, "data-page": `${document.doc_id}:1` }, thumbnail(document.doc_id, 1, null, ""), about),
  );
}

function score(hit) {
  const meter = element("span", { class: "meter", "aria-hidden": "true" }, element("i"));
  meter.firstChild.style.width = `${Math.round(100 * Math.max(0, Math.min(hit.score, 1)))}%`;
  const made = `MaxSim ${hit.maxsim.toFixed(2)}, words ${hit.bm25.toFixed(3)}`;
  return element("span", { class: "score", title: made }, meter, hit.score.toFixed(3));
}

// A page's image in a frame that has its shape before it comes.
function thumbnail(id, page, evidence, snippet) {
  const size = evidence ?? A4;
  const leaf = element("span", { class: "leaf" });
  const frame = element("span", { class: "thumb" }, leaf);
  leaf.style.aspectRatio = `${size.width} / ${size.height}`;
  const url = imageUrl(id, page, { size: THUMBNAIL });
  const image = element("img", { loading: "lazy", decoding: "async", alt: `Page ${page}`, src: url });
  image.addEventListener("load", () => frame.classList.add("there"));
  image.addEventListener("error", () => explain(frame, url, snippet));
  leaf.append(image);
  for (const [i, region] of (evidence?.regions ?? []).entries()) {
    leaf.append(place(element("span", { class: i ? "region" : "region first" }), region.box, evidence));
  }
  return frame;
}

async function explain(frame, url, snippet) {
  const failure = await whyNot(url).catch(() => null);
  const why = failure?.status === 410 ? "The file is gone or has changed, so its page cannot be shown." : failure?.message;
  frame.classList.add("there");
  frame.firstChild.replaceChildren(element("span", { class: "missing" }, element("strong", {}, why ?? "The image did not come."), snippet));
}
