//! The binary: hands the command line to `cli`, which does the rest.
//!
//! Nothing else lives here, so that all of the relay is in the library, where tests reach it. The
//! exit code is the one that the command gives; a panic aborts.

use std::process::ExitCode;

fn main() -> ExitCode {
    staffetta::cli::main(std::env::args_os())
}
