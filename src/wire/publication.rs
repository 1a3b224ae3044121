//! A snapshot in every form in which it is served, each made once.
//!
//! Owns what depends on the snapshot and its version: the heads of the config answers for each form
//! and coding, and the events of the streams. A request adds only what depends on the moment
//! (`Age`,
//! `Date`), so that serving the document costs one gathering write and no encoding.
//!
//! The compressed and the flat forms are made when the first client asks for them. All forms share
//! the one document where they can.
//!
//! Invariant: one strong `ETag` per coding and form (RFC 9110 8.8.3): two different answers never
//! have the same one, and a restart does not change it, because it comes from the digest.

use std::cell::OnceCell;
use std::rc::Rc;

use bytes::Bytes;

use crate::model::{Snapshot, Source, Version};

use super::frame::Frame;
use super::{cors, document, gzip, sse};

/// Which of the two documents an SDK asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `environments`, `collections`, `segments`: what most SDKs read.
    Current,
    /// `features`, `properties`, `segments` at the top: Java and Android.
    Flat,
}

/// A config answer up to the fields that depend on the moment.
#[derive(Debug)]
pub struct Prepared {
    /// Status line and fields; no empty line yet.
    pub head: Bytes,
    pub body: Bytes,
    /// The entity tag with its quotes.
    pub etag: String,
}

/// Everything that is served of one version of one slot.
#[derive(Debug)]
pub struct Publication {
    pub version: Version,
    pub source: Source,
    pub snapshot: Rc<Snapshot>,
    /// First event of a stream, with and without the document.
    pub registration: Rc<Frame>,
    pub registration_only: Rc<Frame>,
    /// The event of a change, with and without the document.
    pub change: Rc<Frame>,
    pub change_only: Rc<Frame>,
    current: OnceCell<Prepared>,
    current_gzip: OnceCell<Prepared>,
    flat: OnceCell<Prepared>,
    flat_gzip: OnceCell<Prepared>,
}

impl Publication {
    /// Encodes the events of `snapshot`; everything else waits until it is asked for.
    ///
    /// Bounded by the document's size.
    pub fn new(version: Version, source: Source, snapshot: Rc<Snapshot>) -> Publication {
        let line = sse::one_line(&snapshot.json);
        Publication {
            version,
            source,
            registration: sse::registration(version, &line).into(),
            registration_only: sse::registration_only(version).into(),
            change: sse::change(version, &line).into(),
            change_only: sse::change_only(version).into(),
            snapshot,
            current: OnceCell::new(),
            current_gzip: OnceCell::new(),
            flat: OnceCell::new(),
            flat_gzip: OnceCell::new(),
        }
    }

    /// The answer in `form`, compressed or not.
    ///
    /// Bounded by the document's size, and that only once per form and coding.
    pub fn answer(&self, form: Form, compressed: bool) -> &Prepared {
        match (form, compressed) {
            (Form::Current, false) => self
                .current
                .get_or_init(|| self.prepare(form, compressed, self.snapshot.json.clone())),
            (Form::Flat, false) => self
                .flat
                .get_or_init(|| self.prepare(form, compressed, document::flat(&self.snapshot))),
            (Form::Current, true) => self.current_gzip.get_or_init(|| {
                let ready = self.snapshot.gzip.clone();
                let packed = ready.unwrap_or_else(|| gzip::compress(&self.snapshot.json));
                self.prepare(form, compressed, packed)
            }),
            (Form::Flat, true) => self.flat_gzip.get_or_init(|| {
                self.prepare(
                    form,
                    compressed,
                    gzip::compress(&self.answer(form, false).body),
                )
            }),
        }
    }

    fn prepare(&self, form: Form, compressed: bool, body: Bytes) -> Prepared {
        let etag = self.etag(form, compressed);
        let mut head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        if compressed {
            head.push_str("content-encoding: gzip\r\n");
        }
        head.push_str(&self.shared_fields(&etag));
        Prepared {
            head: head.into(),
            body,
            etag,
        }
    }

    /// The head of a 304 for a client that sent `If-None-Match` with this answer's tag.
    pub fn not_modified(&self, form: Form, compressed: bool) -> String {
        let etag = self.etag(form, compressed);
        format!("HTTP/1.1 304 Not Modified\r\n{}", self.shared_fields(&etag))
    }

    fn shared_fields(&self, etag: &str) -> String {
        format!(
            "etag: {etag}\r\nvary: accept-encoding\r\ncache-control: no-cache\r\n{}\
             x-config-version: {}\r\nx-config-source: {}\r\n",
            cors::ANSWER_LINE,
            self.version,
            self.source.as_str()
        )
    }

    fn etag(&self, form: Form, compressed: bool) -> String {
        let digest = &self.snapshot.digest.to_string()[..32];
        let form = if form == Form::Flat { "-flat" } else { "" };
        let coding = if compressed { "-gzip" } else { "" };
        format!("\"{digest}{form}{coding}\"")
    }
}

/// Whether a value of `If-None-Match` names `etag` (RFC 9110 13.1.2, weak comparison).
pub fn names(if_none_match: &str, etag: &str) -> bool {
    let tags = if_none_match.split(',').map(str::trim);
    tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag))
        .any(|tag| tag == etag || tag == "*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Counts, Digest};

    fn publication() -> Publication {
        let json = r#"{"environments":[{"name":"Prod","environment_id":"prod","features":[],
            "properties":[]}],"collections":[{"name":"Shop","collection_id":"shop"}],"segments":[]}"#;
        let snapshot = Snapshot {
            gzip: None,
            json: json.into(),
            digest: Digest([0xab; 32]),
            counts: Counts::default(),
            rollouts_filled: 0,
        };
        Publication::new(Version(3), Source::Seed, Rc::new(snapshot))
    }

    #[test]
    fn each_form_and_coding_has_a_tag_of_its_own() {
        let publication = publication();
        let mut tags: Vec<&str> = Vec::new();
        for form in [Form::Current, Form::Flat] {
            for compressed in [false, true] {
                tags.push(&publication.answer(form, compressed).etag);
            }
        }
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 4);
        assert!(!tags.iter().any(|tag| tag.starts_with("W/")));
    }

    #[test]
    fn the_document_is_shared_and_its_event_is_one_line() {
        let publication = publication();
        let served = &publication.answer(Form::Current, false).body;
        assert_eq!(served.as_ptr(), publication.snapshot.json.as_ptr());
        assert!(!publication.change.content.contains(&b'\n'));
    }

    #[test]
    fn heads_say_what_was_sent() {
        let publication = publication();
        let plain = publication.answer(Form::Current, false);
        let head = String::from_utf8(plain.head.to_vec()).unwrap();
        assert!(
            head.contains(&format!("content-length: {}\r\n", plain.body.len())),
            "{head}"
        );
        assert!(
            head.contains("x-config-version: 3\r\nx-config-source: seed\r\n"),
            "{head}"
        );
        assert!(head.contains("vary: accept-encoding\r\n") && !head.contains("content-encoding"));
        let packed = publication.answer(Form::Current, true);
        assert!(String::from_utf8_lossy(&packed.head).contains("content-encoding: gzip\r\n"));
    }

    #[test]
    fn conditions_compare_whole_tags() {
        assert!(names("\"a\", W/\"b\"", "\"b\"") && names("*", "\"b\""));
        assert!(!names("\"ab\"", "\"b\"") && !names("b", "\"b\""));
    }
}
