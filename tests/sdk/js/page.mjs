// The application on a page. What it sees is posted to the server that the page came from, one
// JSON object a line. Where no service is named, it is at the page's own origin.
//
// The SDK is its own bundle, not modified. It sends usage every 300 s and when the page is left;
// the page fires that event by itself once, to see the answer, and is left for good at its end.

import { start, watchPosts } from "./application.mjs";

const { fetch } = window;
let last = Promise.resolve();

function say(event, fields = {}) {
  const body = JSON.stringify({ event, ...fields });
  last = last.then(() => fetch("said", { method: "POST", body }));
}

function script(src) {
  return new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement("script"), { src });
    element.onload = resolve;
    element.onerror = () => reject(new Error(`no ${src}`));
    document.head.append(element);
  });
}

/** The browser does hold this page to what the relay allows: it lets no other header through. */
async function tryAnotherHeader({ service, guid, key, collection, environment }) {
  const slot = `collection_id=${collection}&environment_id=${environment}`;
  const address = `${service}/apprapp/feature/v1/instances/${guid}/config?action=sdkConfig&${slot}`;
  const headers = { authorization: key };
  say("allowed", { status: (await fetch(address, { headers })).status });
  try {
    await fetch(address, { headers: { ...headers, "x-of-our-own": "1" } });
    say("failed", { why: "the browser let a header through that the relay does not allow" });
  } catch {
    say("refused");
  }
}

async function main() {
  const options = await (await fetch("options.json")).json();
  options.service ??= location.origin;
  watchPosts(window, say);
  await script("sdk.js");
  if (options.service !== location.origin) {
    await tryAnotherHeader(options);
  }
  await start(window.AppConfiguration, options, say);
  window.dispatchEvent(new Event("beforeunload"));
  // Answered when the test has seen enough: the same page once more, or none.
  const next = await (await fetch("leave")).text();
  await last;
  location.replace(next);
}

window.addEventListener("error", (event) => say("failed", { why: event.message }));
window.addEventListener("unhandledrejection", (event) => say("failed", { why: `${event.reason}` }));
main().catch((error) => say("failed", { why: `${error.stack ?? error}` }));
