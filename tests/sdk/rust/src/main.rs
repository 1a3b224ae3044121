//! An application with the real Rust SDK in it, driven by the test through its pipes.
//!
//! Started with one JSON object as argument. Prints one JSON object a line for what it sees; takes
//! one word a line on its input:
//!
//!   evaluate   every flag and property for every entity, as `values`
//!   change     waits until something evaluates to other than was last said, as `values`
//!   again      makes a new client, as an application must when the SDK has stopped listening
//!
//! The SDK is not modified. It has no listener, so `change` looks at the values again and again.

use appconfiguration::{
    AppConfigurationClient, AppConfigurationClientIBMCloud, Entity, Feature, Property, Value,
};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use std::io::{Write, stdin};
use std::time::Duration;

/// Between two looks at the values.
const LOOK: Duration = Duration::from_millis(20);

struct Someone {
    id: String,
    attributes: HashMap<String, Value>,
}

impl Entity for Someone {
    // Named by the SDK.
    fn get_id(&self) -> String {
        self.id.clone()
    }

    // Named by the SDK.
    fn get_attributes(&self) -> HashMap<String, Value> {
        self.attributes.clone()
    }
}

fn main() {
    let options = std::env::args().nth(1).expect("options");
    let options: Json = serde_json::from_str(&options).expect("options in JSON");
    let everybody = entities(&options["seed"]);
    let mut client = connect(&options);
    let mut last = Json::Null;
    for word in stdin().lines().map_while(Result::ok) {
        match word.as_str() {
            "evaluate" => {
                last = evaluate(&client, &everybody);
                say("values", &last);
            }
            "change" => {
                let mut now = evaluate(&client, &everybody);
                while now == last {
                    // The SDK tells nobody; the test has the deadline.
                    std::thread::sleep(LOOK);
                    now = evaluate(&client, &everybody);
                }
                last = now;
                say("values", &last);
            }
            "again" => client = connect(&options),
            other => panic!("{other:?}?"),
        }
    }
}

/// Makes a client of the SDK; it fetches its document and opens its socket before it returns.
fn connect(options: &Json) -> AppConfigurationClientIBMCloud {
    let text = |name: &str| options[name].as_str().expect("a text").to_owned();
    let client = AppConfigurationClientIBMCloud::new(
        &text("key"),
        &text("region"),
        &text("guid"),
        &text("environment"),
        &text("collection"),
    );
    let client = client.unwrap_or_else(|error| panic!("{error}: {error:?}"));
    say("ready", &Json::Null);
    client
}

fn say(event: &str, values: &Json) {
    println!("{}", json!({ "event": event, "values": values }));
    std::io::stdout().flush().expect("the test reads");
}

/// Entities that tell flags apart: one in each segment, and many in none for rollouts.
fn entities(seed: &Json) -> Vec<Someone> {
    let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let mut everybody = vec![Someone {
        id: "stranger".to_owned(),
        attributes: [("nobody".to_owned(), "asks for this".to_owned().into())].into(),
    }];
    for segment in list(&seed["segments"]) {
        let attributes = list(&segment["rules"]).into_iter();
        let attributes = attributes.map(|rule| (text(&rule["attribute_name"]), inside(&rule)));
        everybody.push(Someone {
            id: format!("in-{}", text(&segment["segment_id"])),
            attributes: attributes.collect(),
        });
    }
    everybody.extend((0..24).map(|number| Someone {
        id: format!("entity-{number}"),
        attributes: HashMap::new(),
    }));
    everybody
}

/// A value that satisfies a segment's rule.
fn inside(rule: &Json) -> Value {
    let value = rule["values"][0].as_str().unwrap_or_default();
    let number = || value.parse::<f64>().expect("a number");
    match rule["operator"].as_str().unwrap_or_default() {
        "greaterThan" => (number() + 1.0).into(),
        "lesserThan" => (number() - 1.0).into(),
        "greaterThanEquals" | "lesserThanEquals" => number().into(),
        "isNot" | "notContains" | "notStartsWith" | "notEndsWith" => {
            "something else".to_owned().into()
        }
        _ => value.to_owned().into(),
    }
}

/// Everything that an application can ask of `client`.
fn evaluate(client: &AppConfigurationClientIBMCloud, everybody: &[Someone]) -> Json {
    let each = |value: &dyn Fn(&Someone) -> appconfiguration::Result<Value>| -> Json {
        let values = everybody
            .iter()
            .map(|entity| (entity.id.clone(), shown(value(entity))));
        values.collect::<Map<String, Json>>().into()
    };
    let mut features = Map::new();
    for id in client.get_feature_ids().expect("the SDK's own lock") {
        let feature = client
            .get_feature(&id)
            .expect("a feature that it has just named");
        features.insert(id, each(&|entity| feature.get_value(entity)));
    }
    let mut properties = Map::new();
    for id in client.get_property_ids().expect("the SDK's own lock") {
        let property = client
            .get_property(&id)
            .expect("a property that it has just named");
        properties.insert(id, each(&|entity| property.get_value(entity)));
    }
    json!({ "features": features, "properties": properties })
}

fn shown(value: appconfiguration::Result<Value>) -> Json {
    match value {
        Ok(Value::Float64(number)) => number.into(),
        Ok(Value::UInt64(number)) => number.into(),
        Ok(Value::Int64(number)) => number.into(),
        Ok(Value::String(text)) => text.into(),
        Ok(Value::Boolean(truth)) => truth.into(),
        Err(error) => json!({ "raised": format!("{error:?}") }),
    }
}
