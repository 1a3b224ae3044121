//! TLS towards upstreams: who is trusted, and the handshake.
//!
//! Owns where trusted authorities come from: the file that an upstream names, else the system's
//! own, else, in a binary that has them built in, the public ones. A file is read on the disk's
//! lane when the first connection needs it, and kept: a relay whose upstreams speak no TLS reads
//! none.
//!
//! Invariants: verification is never off, whatever the clock shows; that a certificate is not yet
//! valid is told apart, since the clock is the likelier culprit. Sessions of a few hosts are
//! resumed and no more are remembered. `Arc` is what the library takes its configuration in.

use std::io;
use std::path::Path;
use std::sync::Arc; // reason: rustls takes its configuration in an Arc

use futures_lite::{AsyncRead, AsyncWrite};
use futures_rustls::TlsConnector;
use futures_rustls::client::TlsStream;
use rustls::RootCertStore;
use rustls::client::{ClientConfig, Resumption};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};

use crate::config::Host;
use crate::limits::Limits;
use crate::net::disk::read_bounded;
use crate::net::tls::{HAS_64_BIT_CLOCK, SystemWall, provider};

use super::error::{Problem, TlsProblem};

/// What handshakes with the hosts of one set of authorities are made with.
pub type ClientTls = Arc<ClientConfig>; // reason: rustls takes its configuration in an Arc

/// Where distributions keep the file of public authorities: Debian, Fedora, SUSE, RHEL, Alpine.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A configuration that trusts the authorities in `ca_file`, or those of the system. Blocks: runs
/// in the disk's lane.
///
/// Entries that cannot be read are left out, as every other program does with that file.
///
/// # Errors
/// No file, or nothing in it that is a certificate.
pub fn load(ca_file: Option<&Path>, limits: &Limits) -> Result<ClientTls, TlsProblem> {
    let roots = match ca_file {
        Some(path) => read(path, limits),
        None => SYSTEM_FILES
            .iter()
            .find_map(|path| read(Path::new(path), limits))
            .or_else(built_in),
    };
    client_config(roots.ok_or(TlsProblem::Roots)?, limits)
}

fn read(path: &Path, limits: &Limits) -> Option<RootCertStore> {
    let text = read_bounded(path, limits.ca_file_bytes_max).ok()??;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).flatten());
    (!roots.is_empty()).then_some(roots)
}

#[cfg(feature = "webpki-roots")]
fn built_in() -> Option<RootCertStore> {
    let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    Some(roots)
}

#[cfg(not(feature = "webpki-roots"))]
fn built_in() -> Option<RootCertStore> {
    None
}

fn client_config(roots: RootCertStore, limits: &Limits) -> Result<ClientTls, TlsProblem> {
    let clock = Arc::new(SystemWall); // reason: rustls takes its clock in an Arc
    let builder = ClientConfig::builder_with_details(provider(), clock);
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(TlsProblem::Other)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // As on the server's side: resumption may read the standard library's clock.
    config.resumption = match HAS_64_BIT_CLOCK {
        true => Resumption::in_memory_sessions(limits.tls_hosts_max),
        false => Resumption::disabled(),
    };
    Ok(Arc::new(config)) // reason: rustls takes its configuration in an Arc
}

/// Shakes hands with `host`, whose certificate must be for it.
pub async fn connect<S>(
    stream: S,
    host: &Host,
    config: ClientTls,
) -> Result<Box<TlsStream<S>>, Problem>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = match host {
        Host::Address(address) => ServerName::IpAddress((*address).into()),
        Host::Name(name) => {
            ServerName::try_from(name.clone()).map_err(|_| Problem::Unsendable("host name"))?
        }
    };
    let connecting = TlsConnector::from(config).connect(name, stream);
    Box::pin(connecting).await.map(Box::new).map_err(problem)
}

/// What the stream's error means: one of TLS, if that is what is in it.
fn problem(error: io::Error) -> Problem {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(error) => Problem::Tls(TlsProblem::of(rustls::Error::clone(error))),
        None => Problem::Closed(error.kind()),
    }
}

#[cfg(test)]
pub mod tests;
