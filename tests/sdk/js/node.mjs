// The application in Node, which the SDK's README names beside browsers. Prints one JSON object a
// line; takes its options as a JSON object in its only argument; ends when its input does.
//
// The SDK is not modified. It asks for three things of a browser, which are given: `window`, its
// `addEventListener`, and `navigator.userAgent`. Two attributes are set before it starts: usage
// goes out every half second instead of every 300 s, experiments every half second instead of 60 s.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { entities, evaluate, start, watchPosts } from "./application.mjs";

const MODULE = "ibm-appconfiguration-js-client-sdk";
const options = JSON.parse(process.argv[2]);
const require = createRequire(options.installed + "/package.json");

function say(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + "\n");
}

// What the SDK logs is kept apart from what is said.
console.log = console.error;
globalThis.window = globalThis;
globalThis.addEventListener = () => {};
globalThis.navigator ??= { userAgent: "node" };

/** The values that the SDK makes of a document which no relay has touched. */
function sayExpected() {
  const internal = (path) => require(`${MODULE}/dist/src/${path}`).default;
  const handler = internal("configurationhandler").getInstance();
  const seeds = options.expected.map((path) => {
    const seed = JSON.parse(readFileSync(path, "utf8"));
    return options.slots.map(([collection, environment]) => {
      handler.saveInCache(slotOf(seed, collection, environment));
      return evaluate(handler, entities(seed));
    });
  });
  say("expected", { seeds });
}

/** What of a seed belongs to a slot, as IBM's service would send it. */
function slotOf(seed, collection, environment) {
  const belongs = (item) => item.collections.some((entry) => entry.collection_id === collection);
  const found = seed.environments.find((entry) => entry.environment_id === environment);
  const features = found.features.filter(belongs);
  const properties = found.properties.filter(belongs);
  return { environments: [{ ...found, features, properties }], segments: seed.segments };
}

async function main() {
  watchPosts(globalThis, say);
  for (const name of ["metering", "expevaluationmetering"]) {
    require(`${MODULE}/dist/src/utils/${name}`).default.getInstance().meteringInterval = 500;
  }
  options.seed = JSON.parse(readFileSync(options.seed, "utf8"));
  await start(require(MODULE).default, options, say);
  process.stdin.resume().on("end", () => process.exit());
}

if (options.expected) {
  sayExpected();
  // The SDK's timers would keep the process; what was said must have left it first.
  process.stdout.write("", () => process.exit());
} else {
  await main();
}
