// The service's API, asked from the folder that the page is in, wherever a proxy has put that.

const API = "api/v1";

export class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let askForKey = async () => false;

export function onKeyNeeded(ask) {
  askForKey = ask;
}

async function answer(path, options) {
  let response;
  try {
    response = await fetch(`${API}/${path}`, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "The service cannot be reached. Is it still running?");
  }
  if (response.status === 401 && (await askForKey())) return answer(path, options);
  if (!response.ok) throw new Failure(response.status, await reason(response));
  return response;
}

async function reason(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `The service answered with status ${response.status}.`;
  }
}

function query(parameters) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== "" && each !== null && each !== undefined && each !== false) given.append(name, each);
    }
  }
  return given.size ? `?${given}` : "";
}

const json = async (path, signal) => (await answer(path, { signal })).json();

export const index = (signal) => json("index", signal);
export const documents = (after, limit, signal) => json(`documents${query({ after, limit })}`, signal);
export const search = (asked, signal) => json(`search${query(asked)}`, signal);
export const like = ([id, page], asked, signal) => json(`documents/${id}/pages/${page}/like${query(asked)}`, signal);
export const page = (id, number, text, signal) => json(`documents/${id}/pages/${number}${query({ text })}`, signal);

export async function searchImage(file, asked, signal) {
  const sent = { method: "POST", body: file, signal, headers: { "Content-Type": file.type || "application/octet-stream" } };
  return (await answer(`search/image${query(asked)}`, sent)).json();
}

export function imageUrl(id, number, parameters) {
  return `${API}/documents/${id}/pages/${number}/image${query(parameters)}`;
}

// Why an image did not come, which an <img> does not tell.
export async function whyNot(url, signal) {
  const response = await fetch(url, { credentials: "same-origin", signal });
  return response.ok ? null : new Failure(response.status, await reason(response));
}

export async function openSession(key) {
  const response = await fetch(`${API}/session`, { method: "POST", headers: { Authorization: `Bearer ${key}` } });
  return response.ok;
}
