//! The test double of the service as a program, for scripts and for people.
//!
//! Never ships: an example of cargo's, `cargo run --example double -- --help`. It prints where it
//! listens, one line for each port, and then runs until it is killed.

#[path = "mod.rs"]
mod double;

use double::{Double, Options};
use lexopt::prelude::*;
use std::error::Error;
use std::io::{self, Write};

const HELP: &str = "\
Usage: double [--node NAME] [--bind ADDRESS] [--port N] [--control N] [--tls CERT KEY]
              [--api-key KEY] [--guid GUID] [--heartbeat-ms N]

Plays IBM Cloud App Configuration on one port and takes orders on another.
";

fn main() -> Result<(), Box<dyn Error>> {
    let Some(options) = options()? else {
        io::stdout().write_all(HELP.as_bytes())?;
        return Ok(());
    };
    let double = Double::start(options)?;
    let mut out = io::stdout();
    writeln!(out, "serving on {}", double.address)?;
    writeln!(out, "control on {}", double.control)?;
    out.flush()?;
    loop {
        std::thread::park();
    }
}

/// What the command line says; nothing when it asks for help.
fn options() -> Result<Option<Options>, Box<dyn Error>> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("node") => options.node = parser.value()?.string()?,
            Long("bind") => options.bind = parser.value()?.parse()?,
            Long("port") => options.port = parser.value()?.parse()?,
            Long("control") => options.control_port = parser.value()?.parse()?,
            Long("tls") => {
                let chain = parser.value()?.into();
                options.tls = Some((chain, parser.value()?.into()));
            }
            Long("api-key") => options.api_key = Some(parser.value()?.string()?),
            Long("guid") => options.guid = Some(parser.value()?.string()?),
            Long("heartbeat-ms") => options.heartbeat_ms = parser.value()?.parse()?,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some(options))
}
