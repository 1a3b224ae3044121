//! The binary: hands the command line to `cli`, which does the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    staffetta::cli::main(std::env::args_os())
}
