//! `key new`: a client key.
//!
//! Makes keys from the operating system's generator and keeps none of them: the line that is
//! printed is the only copy.

use super::{Command, Exit, UsageError, complain, explain, say};
use ring::rand::{SecureRandom, SystemRandom};

/// The words and the entry of this command.
pub const COMMAND: Command = Command {
    name: "key",
    usage: "key new",
    summary: "Prints a new client key: 256 random bits, safe in URLs, headers and shells.",
    run,
};

/// Random bytes in a key: what HMAC-SHA256, which tokens are made with, can use.
const KEY_BYTES: usize = 32;

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    match parser.next()? {
        Some(Value(word)) if word == "new" => {}
        Some(Short('h') | Long("help")) => return Ok(explain(&COMMAND)),
        Some(other) => return Err(other.unexpected().into()),
        None => return Err(UsageError::Missing("`new`")),
    }
    if let Some(other) = parser.next()? {
        return Err(other.unexpected().into());
    }
    match new(&SystemRandom::new()) {
        Some(key) => {
            say(format_args!("{key}"));
            Ok(Exit::Done)
        }
        None => {
            complain(format_args!("the system gives no random bytes"));
            Ok(Exit::Failed)
        }
    }
}

/// 43 characters of base64url. A `-` in front would read as an option in a shell: such keys are
/// thrown away, which costs a 64th of a bit of their strength.
fn new(random: &dyn SecureRandom) -> Option<String> {
    loop {
        let mut bytes = [0; KEY_BYTES];
        random.fill(&mut bytes).ok()?;
        let key = data_encoding::BASE64URL_NOPAD.encode(&bytes);
        if !key.starts_with('-') {
            return Some(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    #[test]
    fn keys_are_long_sendable_and_never_the_same() {
        let random = SystemRandom::new();
        let keys: Vec<String> = (0..200).map(|_| new(&random).unwrap()).collect();
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(key.len(), 43);
            assert!(!key.starts_with('-'));
            assert!(Secret::new(key.as_bytes()).unwrap().is_sendable());
            assert!(!keys[..index].contains(key));
        }
    }
}
