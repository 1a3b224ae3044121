//! `--slot C/E`, `--route NAME`, `--all`: which entry of a record is meant.
//!
//! One of the three has to be given: what is not named is not changed by accident. `*` stands for
//! every collection or every environment.

use crate::cli::UsageError;
use crate::model::Id;
use crate::model::region::Matching;
use crate::time::WallMs;
use crate::wire::region::parse_time;

/// Takes the option `name`, if it is one of these, into `matching`.
pub fn take(
    name: &str,
    parser: &mut lexopt::Parser,
    matching: &mut Option<Matching>,
) -> Result<bool, UsageError> {
    let found = match name {
        "all" => Matching::default(),
        "slot" => slot(&text_value(parser)?)?,
        "route" => {
            let route = id_value("--route", parser)?;
            Matching {
                route: Some(route),
                ..Matching::default()
            }
        }
        _ => return Ok(false),
    };
    match matching.replace(found) {
        None => Ok(true),
        Some(_) => Err(UsageError::BadValue {
            option: "a record",
            value: format!("--{name}"),
            wanted: "one change at a time: one of --slot, --route and --all",
        }),
    }
}

fn slot(text: &str) -> Result<Matching, UsageError> {
    let bad = || UsageError::BadValue {
        option: "--slot",
        value: text.to_owned(),
        wanted: "COLLECTION/ENVIRONMENT, with * for every one of one kind",
    };
    let part = |text: &str| match text {
        "*" => Ok(None),
        name => Id::new(name).map(Some).ok_or_else(bad),
    };
    let (collection, environment) = text.split_once('/').ok_or_else(bad)?;
    let matching = Matching {
        collection: part(collection)?,
        environment: part(environment)?,
        route: None,
    };
    match matching.is_catch_all() {
        false => Ok(matching),
        true => Err(UsageError::BadValue {
            option: "--slot",
            value: text.to_owned(),
            wanted: "a part of all slots; --all is for everything",
        }),
    }
}

/// A value as text.
pub fn text_value(parser: &mut lexopt::Parser) -> Result<String, UsageError> {
    Ok(parser.value()?.to_string_lossy().into_owned())
}

/// The name of a region, a route or a cluster.
pub fn id_value(option: &'static str, parser: &mut lexopt::Parser) -> Result<Id, UsageError> {
    let value = text_value(parser)?;
    Id::new(&value).ok_or(UsageError::BadValue {
        option,
        value,
        wanted: "a name of letters, digits, '.', '-' or '_'",
    })
}

/// A time in UTC.
pub fn time_value(option: &'static str, parser: &mut lexopt::Parser) -> Result<WallMs, UsageError> {
    let value = text_value(parser)?;
    parse_time(&value).ok_or(UsageError::BadValue {
        option,
        value,
        wanted: "a time in UTC, as 2026-07-01T06:00:00Z",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(words: &[&str]) -> Result<Option<Matching>, String> {
        use lexopt::prelude::*;
        let mut parser = lexopt::Parser::from_args(words);
        let mut matching = None;
        while let Some(argument) = parser.next().unwrap() {
            let Long(name) = argument else {
                return Err(String::from("a word"));
            };
            let name = name.to_owned();
            let outcome = take(&name, &mut parser, &mut matching);
            let is_taken = outcome.map_err(|error| error.to_string())?;
            assert!(is_taken, "{name}");
        }
        Ok(matching)
    }

    #[test]
    fn one_entry_is_meant_and_its_name_is_how_it_is_shown() {
        for (words, shown) in [
            (&["--slot", "line3/*"][..], "line3/*"),
            (&["--slot", "*/prod"], "*/prod"),
            (&["--slot", "line3/prod"], "line3/prod"),
            (&["--route", "orders"], "route:orders"),
            (&["--all"], "everything else"),
        ] {
            let matching = taken(words).unwrap().unwrap();
            assert_eq!(matching.to_string(), shown);
        }
    }

    #[test]
    fn what_means_too_much_or_nothing_is_refused() {
        for (words, why) in [
            (&["--slot", "line3"][..], "COLLECTION/ENVIRONMENT"),
            (&["--slot", "*/*"], "--all is for everything"),
            (&["--slot", "a b/c"], "COLLECTION/ENVIRONMENT"),
            (&["--route", "a b"], "a name of letters"),
            (&["--all", "--route", "orders"], "one change at a time"),
        ] {
            let error = taken(words).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
    }
}
