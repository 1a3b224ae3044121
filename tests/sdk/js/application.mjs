// An application with the real SDK in it, the same in Node and on a page: what it asks of the SDK
// and what it says about the answers. Whatever the SDK announces, every flag and property is
// evaluated at once and said with it, so the test needs to ask nothing.

function inside(rule) {
  const value = rule.values[0];
  switch (rule.operator) {
    case "greaterThan":
      return Number(value) + 1;
    case "lesserThan":
      return Number(value) - 1;
    case "greaterThanEquals":
    case "lesserThanEquals":
      return Number(value);
    case "isNot":
    case "notContains":
    case "notStartsWith":
    case "notEndsWith":
      return "something else";
    default:
      return value;
  }
}

/** Entities that tell flags apart: one in each segment, and many in none for rollouts. */
export function entities(seed) {
  const found = { stranger: { nobody: "asks for this" } };
  for (const segment of seed.segments) {
    const attributes = segment.rules.map((rule) => [rule.attribute_name, inside(rule)]);
    found["in-" + segment.segment_id] = Object.fromEntries(attributes);
  }
  for (let number = 0; number < 24; number += 1) {
    found["entity-" + number] = {};
  }
  return found;
}

/** The value of every one of `items`, features or properties, for every entity. */
function valuesOf(items, found) {
  const values = {};
  for (const [id, item] of Object.entries(items)) {
    values[id] = {};
    for (const [entity, attributes] of Object.entries(found)) {
      values[id][entity] = item.getCurrentValue(entity, attributes) ?? null;
    }
  }
  return values;
}

/** Everything that an application can ask of `sdk`. */
export function evaluate(sdk, found) {
  return {
    features: valuesOf(sdk.getFeatures(), found),
    properties: valuesOf(sdk.getProperties(), found),
  };
}

/** Looks over the SDK's shoulder: says how each of its POSTs was answered, and when all are. */
export function watchPosts(scope, say) {
  const fetch = scope.fetch;
  let underWay = 0;
  scope.fetch = async (address, options = {}) => {
    if (options.method !== "POST") {
      return fetch(address, options);
    }
    underWay += 1;
    try {
      const answer = await fetch(address, options);
      const path = new URL(address).pathname;
      say("posted", { to: path.slice(path.lastIndexOf("/") + 1), status: answer.status });
      return answer;
    } finally {
      underWay -= 1;
      if (underWay === 0) {
        say("settled");
      }
    }
  };
}

/** Starts the SDK as its manual says, and says what it announces. */
export async function start(AppConfiguration, options, say) {
  AppConfiguration.overrideServiceUrl(options.service);
  const sdk = AppConfiguration.getInstance();
  const found = entities(options.seed);
  sdk.emitter.on("registration", () => say("registration", { values: evaluate(sdk, found) }));
  sdk.emitter.on("configurationUpdate", () => say("update", { values: evaluate(sdk, found) }));
  sdk.init(options.region, options.guid, options.key);
  await sdk.setContext(options.collection, options.environment);
  say("ready");
  return sdk;
}
