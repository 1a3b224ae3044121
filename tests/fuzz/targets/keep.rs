//! Records of slots, as they are found in the state folder.
//!
//! Claims: what is accepted is what the encoder would write for it, byte for byte, and belongs to
//! the slot that asked; a refusal is one line. A record that is put together from the input reads
//! back as it was, and not for another slot.

use super::entropy::Entropy;
use bytes::Bytes;
use staffetta::limits::Limits;
use staffetta::model::{Digest, Past, SlotKey, Source};
use staffetta::time::Wall;
use staffetta::wire::keep::{self, Record};
use staffetta::wire::seed::Seed;

pub const WORDS: &[&str] = &[
    "{\"format\":1,\"sha256\":\"",
    "\",\"slot\":\"c/e\"",
    "\"history\":[[\"",
    "\"seeds\":[",
    "\"saved_at\":0",
    "}\n{",
];

const DOCUMENT: &[u8] = br#"{"environments":[{"environment_id":"e","name":"E","features":[],
"properties":[]}],"collections":[{"collection_id":"c","name":"C"}],"segments":[]}"#;

pub fn record(input: &[u8]) {
    let limits = Limits::PRODUCTION;
    let slot = SlotKey::parse("c/e").expect("a slot key");
    match keep::decode(input, &slot, &limits) {
        Ok((record, snapshot)) => {
            assert_eq!((&record.slot, record.digest), (&slot, snapshot.digest));
            assert_eq!(keep::encode(&record), input);
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.chars().any(char::is_control), "{message:?}");
        }
    }
    made(input, &slot, &limits);
}

fn made(input: &[u8], slot: &SlotKey, limits: &Limits) {
    let mut entropy = Entropy::new(input);
    let seed = Seed::parse(DOCUMENT, limits).expect("a good seed");
    let snapshot = seed.snapshot(slot, limits).expect("a good document");
    let sources = [Source::Seed, Source::Primary, Source::Backup];
    let mut past = Past::default();
    for _ in 0..entropy.below(limits.history_digests_max) {
        let source = sources[entropy.below(sources.len())];
        past.adopted.push((Digest([entropy.byte(); 32]), source));
    }
    for _ in 0..=entropy.below(limits.history_seeds_max) {
        past.seeds.push(Digest([entropy.byte(); 32]));
    }
    past.adopted.truncate(limits.history_digests_max - 1);
    past.seeds.truncate(limits.history_seeds_max);
    let source = sources[entropy.below(sources.len())];
    past.adopted.push((snapshot.digest, source));
    let record = Record {
        slot: slot.clone(),
        digest: snapshot.digest,
        source,
        saved_at: Wall::from_unix(entropy.below(usize::MAX) as u64),
        past,
        document: Bytes::copy_from_slice(&snapshot.json),
    };
    let mut bytes = keep::encode(&record);
    assert!(bytes.len() <= keep::bytes_max(limits));
    let (found, again) = keep::decode(&bytes, slot, limits).expect("it was just written");
    assert_eq!((&found, &again.json), (&record, &snapshot.json));
    let other = SlotKey::parse("c/f").expect("a slot key");
    assert!(keep::decode(&bytes, &other, limits).is_err());
    let place = entropy.below(bytes.len());
    bytes[place] ^= 1 << entropy.below(8);
    assert!(
        keep::decode(&bytes, slot, limits).is_err(),
        "flipped at {place}"
    );
}
