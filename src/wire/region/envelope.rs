//! A record on its way: the exact bytes that were signed, and the signature.
//!
//! `{"document": "<base64>", "signature": "<minisign text>"}`. The signature is verified over the
//! decoded bytes before anything of them is read; they are passed on as they came, so that every
//! node holds what the operator has signed and not what some node made of it.
//!
//! Only signatures over a hash are taken, as minisign has made them since 0.10: with the older kind
//! the bytes of one document can be the hash of another.

use super::error::{RecordError, RecordProblem, quoted};
use super::object::Value;
use crate::limits::Limits;
use crate::wire::json;
use data_encoding::BASE64;
use minisign_verify::{Error, PublicKey, Signature};
use std::fmt;

/// Bytes of a signature's first line after its kind: the id of the key.
const KEY_ID: std::ops::Range<usize> = 2..10;

/// A record, not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// What was signed.
    pub document: Vec<u8>,
    /// What minisign wrote; absent for a record that nobody signed.
    pub signature: Option<String>,
}

/// A public key of minisign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    key: PublicKey,
    id: String,
}

impl Signer {
    /// Reads the second line of a `minisign.pub`; `None` if it is none.
    pub fn parse(text: &str) -> Option<Signer> {
        let key = PublicKey::from_base64(text).ok()?;
        let id = key_id(text)?;
        Some(Signer { key, id })
    }

    /// As minisign shows it.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.id)
    }
}

/// The id in a key or a signature: eight bytes, the last one first.
fn key_id(base64: &str) -> Option<String> {
    let bytes = BASE64.decode(base64.as_bytes()).ok()?;
    let id = bytes.get(KEY_ID)?.iter().rev();
    Some(id.map(|byte| format!("{byte:02X}")).collect())
}

/// Makes the envelope of a document; the signature as minisign wrote it.
pub fn pack(document: &[u8], signature: Option<&str>) -> String {
    let document = BASE64.encode(document);
    match signature {
        Some(signature) => {
            let signature = serde_json::Value::from(signature);
            format!("{{\"document\":\"{document}\",\"signature\":{signature}}}\n")
        }
        None => format!("{{\"document\":\"{document}\"}}\n"),
    }
}

/// Opens an envelope; nothing in it is verified. Bounded by its length, at most
/// `region.record_bytes_max`.
///
/// # Errors
/// `TooLarge`, or what is wrong with the JSON or the base64.
pub fn unpack(bytes: &[u8], limits: &Limits) -> Result<Envelope, RecordError> {
    if bytes.len() > limits.region.record_bytes_max {
        let bytes_max = limits.region.record_bytes_max;
        return Err(RecordError::at("$", RecordProblem::TooLarge { bytes_max }));
    }
    let text = json::text(bytes)?;
    json::judge(text, limits.json_depth_max)?;
    let mut object = Value::root(text).object()?;
    let document = object.require("document")?;
    let decoded = BASE64.decode(document.string()?.as_bytes());
    let signature = object.take("signature");
    let signature = signature.map(|value| value.string()).transpose()?;
    object.finish()?;
    Ok(Envelope {
        document: decoded.map_err(|_| document.refuse(RecordProblem::NotBase64))?,
        signature: signature.map(|signature| signature.into_owned()),
    })
}

impl Envelope {
    /// Verifies the signature; the id of the key that made it. Bounded by the keys and the length
    /// of the document.
    ///
    /// # Errors
    /// `Unsigned`, `NotASignature`, `UnknownSigner` or `BadSignature`.
    pub fn verify(&self, signers: &[Signer]) -> Result<String, RecordError> {
        let refuse = |problem| RecordError::at("$.signature", problem);
        let text = self.signature.as_deref();
        let text = text.ok_or_else(|| refuse(RecordProblem::Unsigned))?;
        let signature =
            Signature::decode(text).map_err(|_| refuse(RecordProblem::NotASignature))?;
        let id = text.lines().nth(1).and_then(key_id);
        let id = id.ok_or_else(|| refuse(RecordProblem::NotASignature))?;
        for signer in signers.iter().filter(|signer| signer.id == id) {
            match signer.key.verify(&self.document, &signature, false) {
                Ok(()) => return Ok(id),
                Err(Error::UnexpectedAlgorithm) => {
                    return Err(refuse(RecordProblem::NotASignature));
                }
                // Two keys may have one id by chance: the other is tried as well.
                Err(_) => {}
            }
        }
        Err(refuse(match signers.iter().any(|signer| signer.id == id) {
            true => RecordProblem::BadSignature,
            false => RecordProblem::UnknownSigner { id: quoted(&id) },
        }))
    }
}
