//! `region pack DOC SIG`: document and signature in one record, as nodes pass it on.
//!
//! Reads the document as every node will, and verifies the signature where the public key is given,
//! so that a mistake shows here and not at three sites.

use super::{Failure, document, end};
use crate::cli::{Command, Exit, UsageError, explain, path_value};
use crate::limits::Limits;
use crate::wire::region::{self, RecordError, Signer};
use std::path::{Path, PathBuf};

/// The command.
pub const COMMAND: Command = Command {
    name: "pack",
    usage: "region pack DOC SIG|--unsigned [--public-key-file FILE] [--out FILE]",
    summary: "Puts a document and what `minisign -S` wrote about it into one record; with \
              --public-key-file (minisign.pub), only if the signature is of that key. --unsigned \
              is for nodes with `\"trust\": \"none\"`.",
    run,
};

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut files, mut is_unsigned, mut key, mut out) = (Vec::new(), false, None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("unsigned") => is_unsigned = true,
            Long("public-key-file") => key = Some(path_value(parser)?),
            Long("out") => out = Some(path_value(parser)?),
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            Value(path) if files.len() < 2 => files.push(PathBuf::from(path)),
            other => return Err(other.unexpected().into()),
        }
    }
    let (file, signature) = match (&files[..], is_unsigned) {
        ([file], true) => (file, None),
        ([file, signature], false) => (file, Some(signature.as_path())),
        ([], _) => return Err(UsageError::Missing("DOC")),
        ([_], false) => return Err(UsageError::Missing("SIG, or --unsigned")),
        ([_, signature, ..], _) => {
            return Err(UsageError::BadValue {
                option: "--unsigned",
                value: signature.display().to_string(),
                wanted: "no signature",
            });
        }
    };
    if key.is_some() && is_unsigned {
        return Err(UsageError::Missing("SIG, which --public-key-file is for"));
    }
    let packed = pack(file, signature, key.as_deref(), &Limits::PRODUCTION);
    let outcome = packed.and_then(|text| document::give(&text, out.as_deref()));
    Ok(end("pack", outcome.map(|()| Exit::Done)))
}

fn pack(
    file: &Path,
    signature: Option<&Path>,
    key: Option<&Path>,
    limits: &Limits,
) -> Result<String, Failure> {
    let refused = |path: &Path, problem: &dyn std::fmt::Display| {
        let line = format!("{}: {problem}", path.display());
        (Exit::Refused, line)
    };
    let document = document::content(file, limits)?;
    region::read(&document, limits).map_err(|error| refused(file, &error))?;
    let signature = signature.map(|path| text(path, limits)).transpose()?;
    let packed = region::pack(&document, signature.as_deref());
    let envelope = region::unpack(packed.as_bytes(), limits);
    let envelope = envelope.map_err(|error| refused(file, &error))?;
    if let Some(key) = key {
        let signer = signer(&text(key, limits)?);
        let signer = signer.ok_or_else(|| refused(key, &"no public key of minisign"))?;
        let verified: Result<String, RecordError> = envelope.verify(&[signer]);
        verified.map_err(|error| refused(file, &error))?;
    }
    Ok(packed)
}

fn text(path: &Path, limits: &Limits) -> Result<String, Failure> {
    let bytes = document::content(path, limits)?;
    String::from_utf8(bytes).map_err(|_| (Exit::Refused, format!("{}: no text", path.display())))
}

/// The key in a `minisign.pub`: its second line, or the only one.
fn signer(text: &str) -> Option<Signer> {
    text.lines()
        .rev()
        .find_map(|line| Signer::parse(line.trim()))
}
