//! `cert --dir DIR [--name HOST]...`: a certificate that the clients of a site can trust.
//!
//! Owns: which files there are, who may read them, and what to do with them next. A CA that is
//! there is used again, never replaced; the rest is replaced only by `--force`, and then for the
//! same names unless others are given.
//!
//! Read next: `names` (what certificates are for), `issue` (how they are made).

mod issue;
mod names;
#[cfg(test)]
mod tests;

use self::issue::{Authority, IssueError};
use self::names::{Name, Site};
use super::{Command, Exit, UsageError, complain, explain, path_value, say};
use crate::net::clock::Clock;
use crate::net::disk::{Access, DiskError, atomic_write, read_bounded};
use crate::time::Wall;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The words and the entry of this command.
pub const COMMAND: Command = Command {
    name: "cert",
    usage: "cert --dir DIR [--name HOST]... [--site DOMAIN|NETWORK]... [--force]",
    summary: "Makes a site CA and a server certificate for the relay: ca.crt, ca.key, relay.crt, \
              relay.key and bundle.crt (system roots and site CA). --name adds a host name or \
              address by which SDKs reach the relay, --site what a new CA may sign for later: the \
              other gateways. A CA in DIR is used again; --force without --name keeps the names.",
    run,
};

/// A PEM file: the largest is the system's roots, with about 220 KiB.
const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where distributions keep their roots in one file: Debian and Alpine, Red Hat, SUSE, OpenWrt.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What is replaced by `--force` only.
const REPLACEABLE: [&str; 3] = ["relay.crt", "relay.key", "bundle.crt"];

/// How clients are told to trust the CA: whose, the words, the file. Python's and OpenSSL's
/// settings replace the system's roots, hence the bundle.
const TRUST: [(&str, &str, &str); 5] = [
    ("Python", "REQUESTS_CA_BUNDLE=", "bundle.crt"),
    ("Node", "NODE_EXTRA_CA_CERTS=", "ca.crt"),
    ("Go, Rust, Ruby", "SSL_CERT_FILE=", "bundle.crt"),
    (
        "Java",
        "keytool -importcert -alias staffetta -keystore TRUSTSTORE -file ",
        "ca.crt",
    ),
    ("browsers", "import as an authority: ", "ca.crt"),
];

/// What was asked for.
struct Request {
    directory: PathBuf,
    /// Besides those of every certificate. None = those of the certificate that is there.
    names: Vec<Name>,
    /// What a new CA may sign for besides.
    sites: Vec<Site>,
    force: bool,
}

/// What was done.
struct Made {
    /// The CA was there already.
    authority_kept: bool,
    /// What the certificate is for, besides what every one is for.
    names: Vec<Name>,
    /// What the certificate before it was for, too.
    dropped: Vec<Name>,
    /// The file with the system's roots, if there is one.
    system_roots: Option<&'static str>,
}

/// Why nothing was done.
#[derive(Debug)]
enum CertError {
    Directory(PathBuf, io::Error),
    Disk(DiskError),
    Issue(IssueError),
    /// `ca.crt` without `ca.key`, or the other way round.
    HalfAuthority {
        missing: &'static str,
    },
    /// Sites for a CA that is there.
    FixedAuthority,
    /// Nobody says which names a renewal is for.
    UnknownNames,
    /// Files that only `--force` replaces.
    Exists(Vec<&'static str>),
}

impl From<DiskError> for CertError {
    fn from(error: DiskError) -> CertError {
        CertError::Disk(error)
    }
}

impl From<IssueError> for CertError {
    fn from(error: IssueError) -> CertError {
        CertError::Issue(error)
    }
}

impl fmt::Display for CertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertError::Directory(path, error) => {
                write!(f, "cannot make the folder {}: {error}", path.display())
            }
            CertError::Disk(error) => error.fmt(f),
            CertError::Issue(error) => error.fmt(f),
            CertError::HalfAuthority { missing } => write!(
                f,
                "{missing} is not there, and its other half is: put {missing} beside it for this \
                 command, or make a new CA in another --dir"
            ),
            CertError::FixedAuthority => f.write_str(
                "ca.crt is there, and what it may sign for stays as it was made: leave --site \
                 out, or make a new CA in another --dir",
            ),
            CertError::UnknownNames => f.write_str(
                "the names in relay.crt cannot be read: say with --name what the new one is for",
            ),
            CertError::Exists(files) => write!(
                f,
                "{} exist already: --force replaces relay.crt, relay.key and bundle.crt (the CA \
                 stays)",
                files.join(", ")
            ),
        }
    }
}

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut directory, mut force) = (None, false);
    let (mut names, mut sites) = (Vec::new(), Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("dir") => directory = Some(path_value(parser)?),
            Long("name") => names.push(name_value(parser)?),
            Long("site") => sites.push(site_value(parser)?),
            Long("force") => force = true,
            Short('h') | Long("help") => return Ok(explain(&COMMAND)),
            other => return Err(other.unexpected().into()),
        }
    }
    let request = Request {
        directory: directory.ok_or(UsageError::Missing("--dir"))?,
        names,
        sites,
        force,
    };
    let now = Clock::system().wall();
    match make(&request, now) {
        Ok(made) => {
            advise(&request, &made, now);
            Ok(Exit::Done)
        }
        Err(error) => {
            complain(format_args!("staffetta cert: {error}"));
            Ok(Exit::Failed)
        }
    }
}

fn name_value(parser: &mut lexopt::Parser) -> Result<Name, UsageError> {
    let value = parser.value()?.to_string_lossy().into_owned();
    Name::parse(&value).ok_or(UsageError::BadValue {
        option: "--name",
        value,
        wanted: "a host name or an IP address, without scheme and port",
    })
}

fn site_value(parser: &mut lexopt::Parser) -> Result<Site, UsageError> {
    let value = parser.value()?.to_string_lossy().into_owned();
    Site::parse(&value).ok_or(UsageError::BadValue {
        option: "--site",
        value,
        wanted: "a domain, a host name, an IP address or a network as 10.20.0.0/16",
    })
}

/// Those of every certificate, and these.
fn all_names(given: &[Name]) -> Vec<Name> {
    let mut names = names::always();
    names.extend(beyond(given, &names));
    names
}

/// Those of `names` that are not among `known`, once each.
fn beyond(names: &[Name], known: &[Name]) -> Vec<Name> {
    let mut beyond: Vec<Name> = Vec::new();
    for name in names {
        if !known.contains(name) && !beyond.contains(name) {
            beyond.push(name.clone());
        }
    }
    beyond
}

/// Makes what is missing. Whatever fails before the first file is written leaves everything as it
/// was.
fn make(request: &Request, now: Wall) -> Result<Made, CertError> {
    let directory = &request.directory;
    let read = |name: &str| read_bounded(&directory.join(name), FILE_BYTES_MAX);
    let write = |name: &str, text: &str, access| {
        atomic_write(&directory.join(name), text.as_bytes(), access)
    };
    std::fs::create_dir_all(directory)
        .map_err(|error| CertError::Directory(directory.clone(), error))?;
    let there = |name: &&str| directory.join(name).symlink_metadata().is_ok();
    let exists: Vec<&str> = REPLACEABLE.into_iter().filter(there).collect();
    if !exists.is_empty() && !request.force {
        return Err(CertError::Exists(exists));
    }
    let before = match read("relay.crt")? {
        Some(certificate) => Authority::names_of(&certificate),
        None => Some(Vec::new()),
    };
    let given = match request.names.is_empty() {
        true => before.as_deref().ok_or(CertError::UnknownNames)?,
        false => &request.names,
    };
    let names = all_names(given);
    let (authority, fresh, certificate) = match (read("ca.crt")?, read("ca.key")?) {
        (Some(_), Some(_)) if !request.sites.is_empty() => {
            return Err(CertError::FixedAuthority);
        }
        (Some(certificate), Some(key)) => {
            let authority = Authority::existing(&certificate, &key)?;
            let certificate = String::from_utf8_lossy(&certificate).into_owned();
            (authority, None, certificate)
        }
        (None, None) => {
            let (authority, pair) = Authority::new(&names, &request.sites, now)?;
            let certificate = pair.certificate.clone();
            (authority, Some(pair), certificate)
        }
        (Some(_), None) => return Err(CertError::HalfAuthority { missing: "ca.key" }),
        (None, Some(_)) => return Err(CertError::HalfAuthority { missing: "ca.crt" }),
    };
    let server = authority.issue(&names, now)?;
    let (roots, system_roots) = system_roots()?;
    if let Some(pair) = &fresh {
        write("ca.key", &pair.key, Access::Private)?;
        write("ca.crt", &pair.certificate, Access::Public)?;
    }
    write("relay.key", &server.key, Access::Private)?;
    write("relay.crt", &server.certificate, Access::Public)?;
    write("bundle.crt", &(roots + &certificate), Access::Public)?;
    Ok(Made {
        authority_kept: fresh.is_none(),
        dropped: beyond(&before.unwrap_or_default(), &names),
        names: beyond(&names, &names::always()),
        system_roots,
    })
}

/// The system's roots as PEM that ends in a line end, and where they were found.
fn system_roots() -> Result<(String, Option<&'static str>), CertError> {
    for path in SYSTEM_ROOTS {
        let Some(bytes) = read_bounded(Path::new(path), FILE_BYTES_MAX)? else {
            continue;
        };
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        return Ok((text, Some(path)));
    }
    Ok((String::new(), None))
}

/// What was made, and what people do with it.
fn advise(request: &Request, made: &Made, now: Wall) {
    let directory = request.directory.display();
    match made.authority_kept {
        true => say(format_args!(
            "The CA in {directory} was used again: clients that trust it need nothing new.\n"
        )),
        false => say(format_args!(
            "Made a site CA in {directory}: ca.crt, ca.key.\n"
        )),
    }
    say(format_args!(
        "Made relay.crt and relay.key for localhost, 127.0.0.1, ::1, IBM's token and service hosts"
    ));
    for name in &made.names {
        say(format_args!("  and {name}"));
    }
    for name in &made.dropped {
        say(format_args!("  and no more for {name}"));
    }
    if made.names.is_empty() {
        say(format_args!(
            "  (with --name also for the name or address by which SDKs reach this gateway)"
        ));
    }
    match made.system_roots {
        Some(path) => say(format_args!(
            "Made bundle.crt: the roots of {path} and the site CA.\n"
        )),
        None => say(format_args!(
            "Made bundle.crt: the site CA alone, since this system has no file of roots.\n"
        )),
    }
    if !now.is_plausible() {
        say(format_args!(
            "The clock of this machine was never set; the certificates end as if it were 2026.\n"
        ));
    }
    say(format_args!(
        "1. In the relay's config:\n   \
         \"tls\": {{ \"cert\": \"{directory}/relay.crt\", \"key\": \"{directory}/relay.key\" }}\n\
         2. Keep ca.key safe and off this machine: whoever has it can pretend to be any of\n   \
         these names to your clients. Only the next `staffetta cert` needs it.\n\
         3. Let clients trust the CA:"
    ));
    for (clients, setting, file) in TRUST {
        say(format_args!("   {clients:16} {setting}{directory}/{file}"));
    }
}
