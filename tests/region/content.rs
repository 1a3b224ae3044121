//! Small documents whose one property tells which they are: a write costs what a write costs, and
//! not what its content does.

use serde_json::Value;

/// The document of `marker`.
pub fn content(marker: usize) -> String {
    let mut document = crate::site::seed(marker);
    let properties = document["environments"][0]["properties"].as_array_mut();
    properties.expect("a list").truncate(1);
    document.to_string()
}

/// Which document this is.
pub fn marker(document: &Value) -> usize {
    let value = document["environments"][0]["properties"][0]["value"].as_str();
    let number = value.and_then(|digits| digits.parse().ok());
    number.unwrap_or_else(|| panic!("no document of these tests: {document}"))
}
