// What is asked and shown, kept in the address so that it can be shared.

const FILTERS = ["lane", "docs", "pages", "after", "before", "where", "per"];
export const STEP = 12;

export function read(address = location.search) {
  const given = new URLSearchParams(address);
  const state = { text: given.get("q") ?? "", k: Math.max(STEP, Math.min(Number(given.get("k")) || STEP, 100)) };
  for (const name of FILTERS) state[name] = given.get(name) ?? "";
  state.like = pageId(given.get("like"));
  state.open = pageId(given.get("page"));
  state.token = given.has("token") ? Number(given.get("token")) : null;
  return state;
}

function pageId(text) {
  const found = /^([0-9a-f]{32}):([1-9][0-9]{0,8})$/.exec(text ?? "");
  return found ? [found[1], Number(found[2])] : null;
}

export function address(state) {
  const said = new URLSearchParams();
  if (state.text) said.set("q", state.text);
  for (const name of FILTERS) if (state[name]) said.set(name, state[name]);
  if (state.like) said.set("like", state.like.join(":"));
  if (state.k > STEP) said.set("k", state.k);
  if (state.open) said.set("page", state.open.join(":"));
  if (state.open && state.token !== null) said.set("token", state.token);
  return said.size ? `?${said}` : "./";
}

export const isSearch = (state) => Boolean(state.text.trim() || state.like || state.image);

export const sameSearch = (one, other) =>
  one !== null && one.image === other.image && address({ ...one, open: null }) === address({ ...other, open: null });

// The parameters of the service's search.
export function asked(state, byText) {
  const names = state.docs.split(",").map((name) => name.trim());
  const filters = { k: state.k, docs: names.filter(Boolean), where: state.where, pages: state.pages };
  Object.assign(filters, { after: state.after, before: state.before, per_document: Boolean(state.per) });
  return byText ? { text: state.text, lane: state.lane, ...filters } : filters;
}

export const hasFilters = (state) => FILTERS.some((name) => state[name]);
export const withoutFilters = (state) => ({ ...state, ...Object.fromEntries(FILTERS.map((name) => [name, ""])) });
export { FILTERS };
