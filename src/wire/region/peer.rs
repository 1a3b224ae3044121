//! The headers of a write that one node sends on to another.
//!
//! Owns their names and forms. They mean something only beside the peer key: from anybody else they
//! are taken off before the request goes anywhere ([`is_reserved`]). `Via` is the one that proxies
//! on the way may have added to.
//!
//! Never judges what they say: that is the receiver's table in `state::region`.

use crate::limits::Limits;
use crate::model::Id;
use crate::model::region::Epoch;
use crate::time::Duration;
use crate::wire::DecodeError;

/// The sender's cluster.
pub const CLUSTER: &str = "x-relay-cluster";
/// The sender.
pub const FROM: &str = "x-relay-from";
/// How many nodes the request has left.
pub const HOPS: &str = "x-relay-hops";
/// The term that the sender believes in.
pub const EPOCH: &str = "x-relay-epoch";
/// Milliseconds that are left of the request's time.
pub const DEADLINE: &str = "x-relay-deadline";
/// The client's `Authorization` of a request that goes to a server behind the peer; the field of
/// that name holds the peer key.
pub const AUTHORIZATION: &str = "x-relay-authorization";
/// From a client: refuse rather than send on.
pub const NO_FORWARD: &str = "x-relay-no-forward";
/// In every answer to a write: what became of it.
pub const OUTCOME: &str = "x-relay-outcome";
/// In the answer to a read of a slot: the revision that its term was built on.
pub const PARENT: &str = "x-relay-parent";
/// From a client, and passed on: the name of a push.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

const RESERVED: [&str; 5] = [CLUSTER, FROM, HOPS, EPOCH, DEADLINE];

/// Whether a field of this name is a peer's to send, and nobody else's.
pub fn is_reserved(name: &str) -> bool {
    RESERVED
        .iter()
        .chain([&AUTHORIZATION])
        .any(|reserved| reserved.eq_ignore_ascii_case(name))
}

/// What a peer says about a request that it sends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerHead {
    pub cluster: Id,
    pub from: Id,
    pub hops: u32,
    pub epoch: Epoch,
    pub left: Duration,
}

impl PeerHead {
    /// Takes the fields of a request that came with the peer key; `None` when it has none of them:
    /// then it is the peer's own. Bounded by the number of fields.
    ///
    /// # Errors
    /// One is missing, stands twice, or says nothing that can be.
    pub fn parse<'f>(
        fields: impl Iterator<Item = (&'f str, &'f str)>,
    ) -> Result<Option<PeerHead>, DecodeError> {
        let mut found: [Option<&str>; RESERVED.len()] = [None; RESERVED.len()];
        for (name, value) in fields {
            let place = RESERVED
                .iter()
                .position(|reserved| reserved.eq_ignore_ascii_case(name));
            let Some(place) = place.and_then(|place| found.get_mut(place)) else {
                continue;
            };
            if place.replace(value.trim()).is_some() {
                return Err(DecodeError::Malformed("a peer's header stands twice"));
            }
        }
        if found.iter().all(Option::is_none) {
            return Ok(None);
        }
        let missing = DecodeError::Malformed("a peer's headers are incomplete");
        let [
            Some(cluster),
            Some(from),
            Some(hops),
            Some(epoch),
            Some(left),
        ] = found
        else {
            return Err(missing);
        };
        let name = |text| Id::new(text).ok_or(DecodeError::Malformed("a peer's name"));
        let number = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number: Option<u64> = is_plain.then(|| text.parse().ok()).flatten();
            number.ok_or(DecodeError::Malformed("a peer's number"))
        };
        Ok(Some(PeerHead {
            cluster: name(cluster)?,
            from: name(from)?,
            hops: u32::try_from(number(hops)?).unwrap_or(u32::MAX),
            epoch: Epoch(number(epoch)?),
            left: Duration::from_millis(number(left)?),
        }))
    }

    /// The fields, as they go out; `Via` not among them.
    pub fn fields(&self) -> [(&'static str, String); 5] {
        [
            (CLUSTER, self.cluster.to_string()),
            (FROM, self.from.to_string()),
            (HOPS, self.hops.to_string()),
            (EPOCH, self.epoch.to_string()),
            (DEADLINE, self.left.as_millis().to_string()),
        ]
    }
}

/// The names in a value of `Via` that can be nodes (`1.1 au-1, 1.1 proxy`). Bounded by its length.
pub fn via_names(value: &str) -> impl Iterator<Item = Id> {
    let name = |entry: &str| Id::new(entry.split_whitespace().nth(1)?);
    value.split(',').filter_map(name)
}

/// The entry of this node in `Via`.
pub fn via_entry(node: &Id) -> String {
    format!("1.1 {node}")
}

/// The name that a client gives to a push: visible ASCII within its bound.
pub fn idempotency_key(value: &str, limits: &Limits) -> Option<Box<str>> {
    let fits = (1..=limits.region.idempotency_key_bytes_max).contains(&value.len());
    let is_visible = value.bytes().all(|byte| byte.is_ascii_graphic());
    (fits && is_visible).then(|| value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> PeerHead {
        PeerHead {
            cluster: Id::new("plant").unwrap(),
            from: Id::new("au-1").unwrap(),
            hops: 1,
            epoch: Epoch(5),
            left: Duration::from_millis(11_950),
        }
    }

    fn parse(fields: &[(&'static str, String)]) -> Result<Option<PeerHead>, DecodeError> {
        PeerHead::parse(fields.iter().map(|(name, value)| (*name, value.as_str())))
    }

    #[test]
    fn what_goes_out_comes_in() {
        assert_eq!(parse(&head().fields()), Ok(Some(head())));
    }

    #[test]
    fn names_of_fields_have_no_case_and_every_one_is_reserved() {
        for (name, _) in head().fields() {
            assert!(is_reserved(&name.to_ascii_uppercase()));
        }
        assert!(!is_reserved(NO_FORWARD));
    }

    #[test]
    fn half_of_the_headers_are_none() {
        assert_eq!(parse(&[]), Ok(None));
        for left_out in 0..5 {
            let mut fields = head().fields().to_vec();
            fields.remove(left_out);
            assert!(parse(&fields).is_err(), "{left_out}");
        }
        let mut twice = head().fields().to_vec();
        twice.push((EPOCH, String::from("6")));
        assert!(parse(&twice).is_err());
    }

    #[test]
    fn numbers_are_plain() {
        for bad in ["", "-1", "+1", "1.0", "0x1", "99999999999999999999"] {
            let mut fields = head().fields().to_vec();
            fields[3].1 = String::from(bad);
            assert!(parse(&fields).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn via_has_names_among_other_things() {
        let names: Vec<Id> = via_names("1.1 au-1, 2 some proxy (comment),1.1  eu-2").collect();
        let names: Vec<&str> = names.iter().map(Id::as_str).collect();
        assert_eq!(names, ["au-1", "some", "eu-2"]);
        let own = Id::new("eu-1").unwrap();
        assert!(via_names(&via_entry(&own)).eq([own]));
    }

    #[test]
    fn a_push_has_a_name_that_can_be_kept() {
        let limits = Limits::PRODUCTION;
        assert!(idempotency_key("3f1c-77", &limits).is_some());
        for bad in ["", "a b", "\u{e9}", &"x".repeat(129)] {
            assert_eq!(idempotency_key(bad, &limits), None, "{bad:?}");
        }
    }
}
