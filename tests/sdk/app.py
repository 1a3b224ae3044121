"""An application with the real SDK in it, driven by the test through its pipes.

Started with one JSON object as argument. Prints one JSON object a line for what it sees; takes one
word a line on its input:

  evaluate   every flag and property for every entity
  token      the IAM token that the SDK holds, and whether its WebSocket is up
  flush      send what is waiting of analytics

The SDK is not modified. One attribute is set before it starts: usage is sent every second instead
of every 600, so that a test can see it.
"""

import json
import os
import sys
import time

# The SDK logs to what is standard output when it is imported; that is kept for our own lines.
events = sys.stdout
sys.stdout = sys.stderr

from ibm_appconfiguration import AppConfiguration  # noqa: E402
from ibm_appconfiguration.configurations.internal.utils.metering import Metering  # noqa: E402
from ibm_appconfiguration.configurations.internal.utils.url_builder import URLBuilder  # noqa: E402


def say(event, **fields):
    events.write(json.dumps({"event": event, **fields}, sort_keys=True, default=str) + "\n")
    events.flush()


def inside(rule):
    """A value that satisfies a segment's rule."""
    value = rule["values"][0]
    beyond = {"greaterThan": 1, "lesserThan": -1}.get(rule["operator"])
    if beyond is not None:
        return float(value) + beyond
    if rule["operator"] in ("greaterThanEquals", "lesserThanEquals"):
        return float(value)
    if rule["operator"] in ("isNot", "notContains", "notStartsWith", "notEndsWith"):
        return "something else"
    return value


def entities(seed):
    """Entities that tell flags apart: one in each segment, and many in none for rollouts."""
    found = {}
    for segment in seed["segments"]:
        attributes = {rule["attribute_name"]: inside(rule) for rule in segment["rules"]}
        found["in-" + segment["segment_id"]] = attributes
    found["stranger"] = {"nobody": "asks for this"}
    for number in range(24):
        found["entity-%d" % number] = {}
    return found


def evaluate(items, found):
    def value(item, entity, attributes):
        try:
            return item.get_current_value(entity, attributes)
        except Exception as error:  # what the SDK makes of it must be the same on both sides
            return {"raised": type(error).__name__}

    return {
        name: {entity: value(item, entity, attributes) for entity, attributes in found.items()}
        for name, item in items.items()
    }


def main(options):
    Metering._Metering__send_interval = 1
    AppConfiguration.enable_debug(True)
    if options.get("override"):
        AppConfiguration.override_service_url(options["override"])
    sdk = AppConfiguration.get_instance()
    sdk.init(options["region"], options["guid"], options["key"])
    context = {"live_config_update_enabled": True}
    if options.get("bootstrap"):
        context = {"bootstrap_file": options["bootstrap"], "live_config_update_enabled": False}
    sdk.set_context(options["collection"], options["environment"], options=context)
    sdk.register_configuration_update_listener(lambda: say("update", at=time.time()))
    with open(options["seed"], encoding="utf-8") as file:
        found = entities(json.load(file))
    say("loaded", features=sorted(sdk.get_features()), properties=sorted(sdk.get_properties()))

    for line in sys.stdin:
        word = line.strip()
        if word == "evaluate":
            features = evaluate(sdk.get_features(), found)
            say("values", features=features, properties=evaluate(sdk.get_properties(), found))
        elif word == "token":
            token = URLBuilder.get_iam_authenticator().token_manager.access_token
            say("token", token=token, connected=sdk.is_connected())
        elif word == "flush":
            sdk.flush_records()
            say("flushed")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    # The SDK's threads would keep the process for a while; the test is over.
    os._exit(0)
