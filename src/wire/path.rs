//! The relays between this one and the origin: `X-Config-Path`.
//!
//! Relays stand behind relays, and somebody may close them to a ring, in which each would confirm
//! what the next one holds, for ever and without an origin. So each config answer names the relays
//! that its content came through, its own sender first; a relay that finds itself there, or more
//! names than any sane site has, refuses the content.
//!
//! Never a client's business: SDKs ignore the field, and a change of path is no change of content.
//!
//! Source: the rule is this relay's own; a service that is no relay sends no such field.

use std::fmt;

use crate::model::Id;

/// The relays that content came through, the nearest first; empty for the service's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Vec<Id>);

/// Why content is not taken from an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It came through this very relay.
    Ring(Path),
    /// It came through more relays than a path may have.
    TooLong { nodes: usize, nodes_max: usize },
    /// The field is no list of ids.
    Malformed,
}

impl Path {
    /// Reads the value of the field, as it came to the relay `own`; none is an empty path.
    ///
    /// Bounded by `nodes_max`, and by the bound of a response head.
    ///
    /// # Errors
    /// `own` stands in it; more than `nodes_max` names; a name that is no id.
    pub fn parse(text: Option<&str>, own: &Id, nodes_max: usize) -> Result<Path, PathError> {
        let Some(text) = text else {
            return Ok(Path::default());
        };
        let names = text.split(',').map(str::trim);
        let nodes = names.clone().count();
        if nodes > nodes_max {
            return Err(PathError::TooLong { nodes, nodes_max });
        }
        let ids: Option<Vec<Id>> = names.map(Id::new).collect();
        let path = Path(ids.ok_or(PathError::Malformed)?);
        match path.0.contains(own) {
            true => Err(PathError::Ring(path)),
            false => Ok(path),
        }
    }

    /// The whole field of an answer by the relay `own`, with its line end.
    pub fn field(&self, own: &Id) -> String {
        let mut line = format!("x-config-path: {own}");
        for node in &self.0 {
            line.push(',');
            line.push_str(node.as_str());
        }
        line.push_str("\r\n");
        line
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, node) in self.0.iter().enumerate() {
            let arrow = if place == 0 { "" } else { " < " };
            write!(formatter, "{arrow}{node}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathError::Ring(path) => write!(
                formatter,
                "its content came through this relay itself ({path}): the relays stand in a ring; \
                 point one of them at the service or at a relay that is not behind this one"
            ),
            PathError::TooLong { nodes, nodes_max } => write!(
                formatter,
                "its content came through {nodes} relays, more than {nodes_max}: point this relay \
                 at one that is nearer to the service"
            ),
            PathError::Malformed => {
                formatter.write_str("its X-Config-Path is not a list of relay ids")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        Id::new(text).unwrap()
    }

    fn parse(text: &str) -> Result<Path, PathError> {
        Path::parse(Some(text), &id("me"), 8)
    }

    #[test]
    fn each_relay_puts_itself_in_front() {
        let own = id("me");
        assert_eq!(Path::default().field(&own), "x-config-path: me\r\n");
        let behind = parse("b, c").unwrap();
        assert_eq!(behind.field(&own), "x-config-path: me,b,c\r\n");
        assert_eq!(behind.to_string(), "b < c");
    }

    #[test]
    fn a_ring_is_found_wherever_this_relay_stands_in_it() {
        for text in ["me", "me,b", "b,me,c", "b,c,me"] {
            assert!(matches!(parse(text), Err(PathError::Ring(_))), "{text}");
        }
        assert!(parse("mee,m").is_ok());
    }

    #[test]
    fn paths_are_bounded_and_made_of_ids() {
        assert!(parse("a,b,c,d,e,f,g,h").is_ok());
        let long = parse("a,b,c,d,e,f,g,h,i");
        assert_eq!(
            long,
            Err(PathError::TooLong {
                nodes: 9,
                nodes_max: 8
            })
        );
        for text in ["", "a,,b", "a b", "a\u{e9}"] {
            assert_eq!(parse(text), Err(PathError::Malformed), "{text:?}");
        }
    }
}
