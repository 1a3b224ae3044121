#!/usr/bin/env python3
"""Prints a large valid seed for the slots of demo-config.json.

The same --bytes give the same seed on every machine: values come from a counter, not from chance.
Half of the items belong to `inventory`, half to `payments`, and both environments hold all of them,
so each of the four slots gets about a quarter of the file.
"""

import argparse
import json
import sys

COLLECTIONS = [
    {"name": "Inventory", "collection_id": "inventory", "description": "", "tags": ""},
    {"name": "Payments", "collection_id": "payments", "description": "", "tags": ""},
]
SEGMENTS = 40


def segment(number):
    return {
        "name": f"Aisle {number}",
        "segment_id": f"aisle-{number}",
        "description": "",
        "tags": "",
        "rules": [
            {"attribute_name": "aisle", "operator": "is", "values": [str(number), f"A{number}"]},
            {"attribute_name": "badge", "operator": "notEndsWith", "values": ["-tmp"]},
        ],
    }


def typed(number):
    """Type, format, enabled and disabled value; `number` walks through all kinds."""
    text = f"value {number} of a shelf that is neither full nor empty"
    return [
        ("BOOLEAN", None, True, False),
        ("NUMERIC", None, number, -number),
        ("NUMERIC", None, number + 0.25, 0.5),
        ("STRING", "TEXT", text, ""),
        ("STRING", "JSON", {"shelf": number, "sizes": [1, 2.5, "XL"], "note": text}, {}),
        ("STRING", "YAML", f"shelf: {number}\nnote: {text}\n", "{}"),
    ][number // 4 % 6]


def rules(number, value, feature):
    rule = {
        "rules": [{"segments": [f"aisle-{number % SEGMENTS}"]}],
        "value": value if number % 2 else "$default",
        "order": 1,
    }
    if feature:
        rule["rollout_percentage"] = "$default" if number % 5 else number % 101
    return [rule] if number % 3 == 0 else []


def item(number, environment):
    kind, form, on, off = typed(number)
    collection = COLLECTIONS[number // 2 % 2]
    feature = number % 2 == 0
    id_key = "feature_id" if feature else "property_id"
    fields = {"name": f"Item {number}", id_key: f"item-{number}"}
    fields["description"] = f"Item {number} as it is in {environment}"
    fields["type"] = kind
    if form:
        fields["format"] = form
    if feature:
        fields |= {"enabled_value": on, "disabled_value": off, "enabled": number % 5 != 0}
        fields["rollout_percentage"] = number % 101
    else:
        fields["value"] = on
    fields |= {"tags": "made", "isOverridden": False}
    fields["segment_rules"] = rules(number, on, feature)
    fields["collections"] = [{key: collection[key] for key in ("collection_id", "name")}]
    return feature, fields


def seed(items):
    environments = []
    for environment in ("dev", "prod"):
        made = [item(number, environment) for number in range(items)]
        environments.append({
            "name": environment,
            "environment_id": environment,
            "description": "",
            "tags": "",
            "color_code": "#0f62fe",
            "features": [fields for feature, fields in made if feature],
            "properties": [fields for feature, fields in made if not feature],
        })
    segments = [segment(number) for number in range(SEGMENTS)]
    return {"environments": environments, "collections": COLLECTIONS, "segments": segments}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=1_000_000, help="size aimed at from below")
    wanted = parser.parse_args().bytes

    def text(items):
        return json.dumps(seed(items), ensure_ascii=False) + "\n"

    low, high = 0, max(2, wanted // 200)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(text(middle).encode()) <= wanted else (low, middle - 1)
    sys.stdout.write(text(low))


if __name__ == "__main__":
    main()
