//! Which slots a client key may use.
//!
//! A pattern is made of identifiers, so that what it matches is as plain as the names of the slots:
//! no partial stars, no escapes, no order that matters.

use crate::model::{Id, SlotKey};
use std::fmt;

/// `inventory/dev`, `inventory/*`, `*/prod`, or `*` for all; `*` stands for a whole part only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotPattern {
    /// `None` = any.
    collection: Option<Id>,
    /// `None` = any.
    environment: Option<Id>,
}

impl SlotPattern {
    /// Reads a pattern as it stands in the configuration.
    pub fn parse(text: &str) -> Option<SlotPattern> {
        let (collection, environment) = match text {
            "*" => ("*", "*"),
            _ => text.split_once('/')?,
        };
        Some(SlotPattern {
            collection: part(collection)?,
            environment: part(environment)?,
        })
    }

    /// Whether the pattern covers `key`.
    pub fn matches(&self, key: &SlotKey) -> bool {
        let covers = |part: &Option<Id>, id| part.as_ref().is_none_or(|part| part == id);
        covers(&self.collection, &key.collection) && covers(&self.environment, &key.environment)
    }
}

impl fmt::Display for SlotPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = |part: &Option<Id>| part.as_ref().map_or("*".into(), Id::to_string);
        let (collection, environment) = (written(&self.collection), written(&self.environment));
        write!(formatter, "{collection}/{environment}")
    }
}

/// The outer `None` is a mistake, the inner one stands for any.
fn part(text: &str) -> Option<Option<Id>> {
    match text {
        "*" => Some(None),
        _ => Id::new(text).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_whole_part() {
        let slot = SlotKey::parse("inventory/dev").unwrap();
        for yes in ["*", "*/*", "inventory/*", "*/dev", "inventory/dev"] {
            assert!(SlotPattern::parse(yes).unwrap().matches(&slot), "{yes}");
        }
        for no in ["payments/*", "*/prod", "inventory/prod"] {
            assert!(!SlotPattern::parse(no).unwrap().matches(&slot), "{no}");
        }
        for bad in ["", "inventory", "inv*/dev", "a/b/c", "/", "**"] {
            assert!(SlotPattern::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn patterns_print_as_they_are_read() {
        assert_eq!(SlotPattern::parse("*/dev").unwrap().to_string(), "*/dev");
        assert_eq!(SlotPattern::parse("*").unwrap().to_string(), "*/*");
    }
}
