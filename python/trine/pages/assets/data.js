// Where a page's numbers come from: the server that sent it, or the file it lies in. Same paths, same values.

const element = document.getElementById("stored");
const stored = element ? JSON.parse(element.textContent) : null;
const answers = new Map();

export const inFile = stored !== null;

function unpack(text) {
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) out[i] = binary.charCodeAt(i);
  return out.buffer;
}

export class Missing extends Error {}

async function ask(path, signal) {
  const answer = await fetch(path, { credentials: "same-origin", signal });
  if (!answer.ok) {
    let text = answer.statusText;
    try { text = (await answer.json()).error; } catch { /* not JSON */ }
    throw new Error(text);
  }
  return answer;
}

export async function json(path, { fresh = false, signal } = {}) {
  if (stored) {
    if (!(path in stored)) throw new Missing("this file does not hold it; the live page does");
    return stored[path].value;
  }
  if (!fresh && answers.has(path)) return answers.get(path);
  const promise = ask(path, signal).then((a) => a.json());
  if (!fresh) {
    answers.set(path, promise);
    promise.catch(() => answers.delete(path));
  }
  return promise;
}

export async function binary(path, { signal } = {}) {
  if (stored) {
    if (!(path in stored)) throw new Missing("this file does not hold it; the live page does");
    return unpack(stored[path].bytes);
  }
  return (await ask(path, signal)).arrayBuffer();
}

export const holds = (path) => !stored || path in stored;
