//! TLS on the server side: the configuration from two files, and the handshake.
//!
//! Owns what is offered: TLS 1.2 (one SDK's WebSocket speaks nothing newer) and 1.3, HTTP/1.1 by
//! ALPN, tickets instead of a session table. A missing or odd server name is tolerated: there is
//! one certificate, and SDKs send IP addresses where names belong.
//!
//! The first message of a client is collected before anything is spent on it, up to the length of a
//! request's head. Only then does the connection wait for one of a few handshake places, and it has
//! one until the relay's own answer is out: whoever stalls before or after holds a buffer and no
//! place, so a thousand of them keep nobody out.
//!
//! `Arc` is what the library takes its configuration in; nothing here is shared between threads.

use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc; // reason: rustls takes its configuration in an Arc
use std::task::{Poll, ready};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{Acceptor, NoServerSessionStorage};
use rustls::time_provider::TimeProvider;
use rustls::{CipherSuite, ServerConfig};
use smol::Timer;
use smol::lock::SemaphoreGuard;

use crate::limits::TLS_RECORD_BYTES;
use crate::state::deadlines::Reason;
use crate::time::Duration;

use super::clock::system_wall;
use super::connection::Connection;
use super::driver::Driver;

/// The shortest time that a handshake place is taken; a timer fires in a turn of the reactor.
const PACE: Duration = Duration::from_millis(1);

/// What the library counts into a fragment beside its content.
const RECORD_HEADER_BYTES: usize = 5;

/// Whether the standard library's clock goes on after 2038.
pub(super) const HAS_64_BIT_CLOCK: bool = cfg!(target_pointer_width = "64");

/// The time of day as rustls asks for it.
#[derive(Debug)]
pub(super) struct SystemWall;

impl TimeProvider for SystemWall {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = system_wall().as_unix();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// What the handshakes of this relay are made with.
pub type ServerTls = Arc<ServerConfig>; // reason: rustls takes its configuration in an Arc

/// Why certificate and key cannot be used.
#[derive(Debug)]
pub enum TlsError {
    /// The file holds no certificate in PEM form.
    NoCertificate(PathBuf),
    /// The file holds no private key in PEM form.
    NoKey(PathBuf),
    /// The two do not work, or not together.
    Unusable(PathBuf, rustls::Error),
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TlsError::NoCertificate(path) => write!(
                formatter,
                "{}: holds no certificate; it must begin with -----BEGIN CERTIFICATE-----",
                path.display()
            ),
            TlsError::NoKey(path) => write!(
                formatter,
                "{}: holds no private key; it must begin with -----BEGIN PRIVATE KEY-----",
                path.display()
            ),
            TlsError::Unusable(path, error) => write!(
                formatter,
                "{}: cannot be used ({error}); `staffetta cert` makes a matching pair",
                path.display()
            ),
        }
    }
}

/// A configuration from the contents of the two files; the paths are for messages only.
pub fn server_config(
    (cert_path, cert): (&Path, &[u8]),
    (key_path, key): (&Path, &[u8]),
) -> Result<ServerTls, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| TlsError::NoCertificate(cert_path.to_owned()))?;
    let key = PrivateKeyDer::from_pem_slice(key);
    let key = key.map_err(|_| TlsError::NoKey(key_path.to_owned()))?;
    let unusable = |error| TlsError::Unusable(cert_path.to_owned(), error);
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ignore_client_order = !has_aes();
    config.max_fragment_size = Some(TLS_RECORD_BYTES + RECORD_HEADER_BYTES);
    config.time_provider = Arc::new(SystemWall); // reason: a field of rustls
    config.session_storage = Arc::new(NoServerSessionStorage {}); // reason: a field of rustls
    // The library's tickets read the standard library's clock, which ends the process in 2038 where
    // it has 32 bits. There, sessions are not resumed.
    config.send_tls13_tickets = if HAS_64_BIT_CLOCK { 1 } else { 0 };
    if HAS_64_BIT_CLOCK {
        config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(unusable)?;
    }
    Ok(Arc::new(config)) // reason: rustls takes its configuration in an Arc
}

/// The cryptography of both sides, in the order that suits the processor.
pub(super) fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    if !has_aes() {
        // Stable: the order within the two kinds stays.
        provider
            .cipher_suites
            .sort_by_key(|suite| !is_chacha(suite.suite()));
    }
    Arc::new(provider) // reason: rustls takes its provider in an Arc
}

fn is_chacha(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    )
}

/// Whether the processor has AES instructions. Without them ChaCha20 is several times faster.
fn has_aes() -> bool {
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    return false;
}

/// Shakes hands on a connection whose first bytes, `unread`, look like TLS. On return everything is
/// sent and the stream carries plain text.
pub async fn accept(
    connection: &Connection,
    config: ServerTls,
    mut unread: Vec<u8>,
) -> io::Result<()> {
    let mut acceptor = Acceptor::default();
    let mut left = connection.driver.limits.head_bytes_max;
    let accepted = poll_fn(|context| {
        loop {
            let mut io = connection.io();
            match io.try_hello(&mut acceptor, &mut unread, &mut left) {
                Ok(Some(accepted)) => return Poll::Ready(Ok(accepted)),
                Ok(None) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(io.poll_readable(context))?;
        }
    })
    .await?;
    connection.disarm();
    let mut place = Some(connection.driver.handshakes.acquire().await);
    // The wait was ours; what is left to do takes the peer's time again.
    connection.arm(Reason::Head);
    let session = accepted.into_connection(config).map_err(|(error, alert)| {
        connection.io().send_alert(alert);
        invalid(error)
    })?;
    let spare = connection.driver.spare.clone();
    connection.io().start_tls(session, unread, spare);
    poll_fn(|context| {
        loop {
            match connection.io().try_handshake() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            if connection.io().wants_write() {
                ready!(connection.io().poll_writable(context))?;
            } else {
                if let Some(place) = place.take() {
                    give_back(&connection.driver, place);
                }
                ready!(connection.io().poll_readable(context))?;
            }
        }
    })
    .await
}

/// Gives a place back after the reactor had its turn. Until then nobody gets it, so that a fleet
/// that comes back at once keeps other connections waiting for a few handshakes only.
fn give_back(driver: &Rc<Driver>, place: SemaphoreGuard<'_>) {
    place.forget();
    let driver = driver.clone();
    driver.clone().spawn_for_client(async move {
        Timer::after(PACE).await;
        driver.handshakes.add_permits(1);
    });
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::net::connection::Door;
    use crate::net::rig::Rig;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    fn rig(limits: Limits) -> Rig {
        let made = rcgen::generate_simple_self_signed(["r".to_owned()]).unwrap();
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let path = Path::new("test.pem");
        let config = server_config((path, cert.as_bytes()), (path, key.as_bytes())).unwrap();
        let rig = Rig::new(limits);
        *rig.driver.tls.borrow_mut() = Some(config);
        rig
    }

    fn hello() -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider()); // reason: rustls
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("r").unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap(); // reason: rustls
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn whoever_stalls_in_a_handshake_keeps_nobody_out() {
        let rig = rig(Limits {
            handshakes_max: 1,
            ..Limits::PRODUCTION
        });
        let mut clients = [Door::Sdk; 3].map(|door| rig.connect(door));
        for client in &mut clients {
            let (mut answer, mut ended) = rig.exchange_bytes(client, &hello());
            // The reactor's own thread gives the place back.
            for _ in 0..1_000_000 {
                if !answer.is_empty() || ended {
                    break;
                }
                std::thread::yield_now();
                rig.settle();
                (answer, ended) = rig.read(client);
            }
            assert!(answer.len() > 500 && !ended, "{} bytes", answer.len());
        }
    }

    #[test]
    fn a_first_message_without_end_is_cut_off() {
        let rig = rig(Limits::PRODUCTION);
        let mut client = rig.connect(Door::Sdk);
        // A hello that announces 60,000 bytes, in records of 1,000.
        let mut message = b"\x01\x00\xea\x60".to_vec();
        message.resize(60_000, 0);
        let records = message
            .chunks(1000)
            .map(|chunk| [b"\x16\x03\x01\x03\xe8", chunk].concat());
        let mut taken = 0;
        for record in records {
            let (_, ended) = rig.exchange_bytes(&mut client, &record);
            taken += record.len();
            if ended {
                break;
            }
        }
        assert!(
            taken < 2 * Limits::PRODUCTION.head_bytes_max,
            "{taken} bytes"
        );
    }
}
