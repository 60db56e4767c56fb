// Requests to this server, and what becomes of a refusal.

export class Refused extends Error {
  constructor(sentence, status) { super(sentence); this.status = status; }
}

let askForToken = async () => { throw new Refused("a token is needed", 401); };

export function onToken(ask) { askForToken = ask; }

export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the server does not answer", 0);
  }
  if (answer.status === 401) {
    await askForToken();
    return ask(path, options);
  }
  const content = await answer.json().catch(() => ({}));
  if (answer.status === 429) {
    await new Promise((done) => setTimeout(done, 1000 * Number(answer.headers.get("retry-after") || 1)));
    return ask(path, options);
  }
  if (!answer.ok) throw new Refused(content.error || `error ${answer.status}`, answer.status);
  return content;
}

export const post = (path, fields, signal) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(fields), signal });

export function postPicture(path, picture, fields, signal) {
  const form = new FormData();
  form.append("image", picture, "picture");
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  return ask(path, { method: "POST", body: form, signal });
}

export async function openSession(token) {
  const answer = await fetch("/session", { method: "POST", headers: { authorization: `Bearer ${token}` } });
  return answer.ok;
}
