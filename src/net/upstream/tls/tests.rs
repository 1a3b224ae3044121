//! Handshakes with a server of the same library, over pipes: who is trusted, and who is not.

use super::*;
use crate::net::disk::scratch::Scratch;
use crate::net::io::Wire;
use crate::net::upstream::client::Trust;
use crate::net::upstream::dial::{Stream, Way, dial};
use crate::net::upstream::rig::{Rig, way};
use futures_lite::AsyncReadExt as _;
use futures_lite::AsyncWriteExt as _;
use futures_rustls::TlsAcceptor;
use futures_rustls::server::TlsStream;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// A certificate for `name`, valid for a year from the first of January.
struct Site {
    pem: String,
    config: Arc<ServerConfig>, // reason: rustls
}

fn site(name: &str, year: i32) -> Site {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(year, 1, 1);
    params.not_after = date_time_ymd(year + 20, 1, 1);
    let cert = params.self_signed(&key).unwrap();
    let secret = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], secret)
        .unwrap();
    Site {
        pem: cert.pem(),
        config: Arc::new(config), // reason: rustls
    }
}

/// Dials `url`, trusting what `ca_file` holds, with `site` at the other end.
fn dialled(url: &str, ca_file: &str, site: &Site, step_bytes: usize) -> Result<Stream, Problem> {
    greeted(url, ca_file, site, step_bytes, "hello").map(|(stream, _)| stream)
}

/// The same with its server, and with that much read of the server's hello.
fn greeted(
    url: &str,
    ca_file: &str,
    site: &Site,
    step_bytes: usize,
    read: &str,
) -> Result<(Stream, Option<TlsStream<Wire>>), Problem> {
    let rig = Rig::with(Limits::PRODUCTION, step_bytes);
    let scratch = Scratch::new(&format!("ca-{:?}", std::thread::current().id()));
    std::fs::write(scratch.path("ca.pem"), ca_file).unwrap();
    let way = Way {
        trust: Trust::File(scratch.path("ca.pem")),
        ..way(url)
    };
    let net = rig.net.clone();
    let task = rig.start(async move { dial(&net, &way).await.map_err(|error| error.problem) });
    let acceptor = TlsAcceptor::from(site.config.clone());
    let server = async {
        // The file is read on the lane first.
        let mut accepted = None;
        while accepted.is_none() && !task.is_finished() {
            smol::future::yield_now().await;
            accepted = rig.try_accept();
        }
        let (_, end) = accepted?;
        let mut stream = acceptor.accept(Wire::from(end)).await.ok()?;
        stream.write_all(b"hello").await.ok()?;
        stream.flush().await.ok()?;
        Some(stream)
    };
    let client = async {
        while !task.is_finished() {
            smol::future::yield_now().await;
        }
    };
    let both = futures_lite::future::zip(server, client);
    let (server, ()) = smol::block_on(rig.executor.run(both));
    let mut stream = smol::block_on(task)?;
    let mut hello = vec![0; read.len()];
    smol::block_on(rig.executor.run(stream.read_exact(&mut hello))).unwrap();
    assert_eq!(hello, read.as_bytes());
    Ok((stream, server))
}

fn problem(url: &str, ca_file: &str, site: &Site) -> Problem {
    match dialled(url, ca_file, site, 1 << 20) {
        Err(problem) => problem,
        Ok(_) => panic!("trusted"),
    }
}

#[test]
fn a_server_that_the_file_vouches_for_is_trusted() {
    let by_name = site("a.test", 2020);
    let by_address = site("127.0.0.1", 2020);
    for step_bytes in [7, 1 << 20] {
        assert!(dialled("https://a.test", &by_name.pem, &by_name, step_bytes).is_ok());
        let url = "https://127.0.0.1:8443";
        assert!(dialled(url, &by_address.pem, &by_address, step_bytes).is_ok());
    }
    // One broken entry does not make a file useless.
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let file = format!("{broken}{}", by_name.pem);
    assert!(dialled("https://a.test", &file, &by_name, 1 << 20).is_ok());
}

#[test]
fn a_connection_with_something_unread_is_not_quiet() {
    let site = site("a.test", 2020);
    for (read, is_quiet) in [("hello", true), ("hell", false)] {
        let greeted = greeted("https://a.test", &site.pem, &site, 1 << 20, read);
        let (mut stream, _server) = greeted.unwrap();
        assert_eq!(stream.is_quiet(), is_quiet, "{read}");
    }
}

#[test]
fn who_is_not_trusted_is_told_apart() {
    let (good, other) = (site("a.test", 2020), site("a.test", 2021));
    let unborn = site("a.test", 2200);
    let expired = site("a.test", 1990);
    for (url, ca_file, site, expected) in [
        (
            "https://a.test",
            &other.pem,
            &good,
            TlsProblem::UnknownIssuer,
        ),
        ("https://b.test", &good.pem, &good, TlsProblem::WrongName),
        ("https://127.0.0.1", &good.pem, &good, TlsProblem::WrongName),
        (
            "https://a.test",
            &unborn.pem,
            &unborn,
            TlsProblem::NotYetValid,
        ),
        (
            "https://a.test",
            &expired.pem,
            &expired,
            TlsProblem::Expired,
        ),
    ] {
        assert_eq!(problem(url, ca_file, site), Problem::Tls(expected), "{url}");
    }
}

#[test]
fn a_file_without_authorities_is_the_operators_mistake() {
    let good = site("a.test", 2020);
    for file in [
        "",
        "nonsense",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let found = problem("https://a.test", file, &good);
        assert_eq!(found, Problem::Tls(TlsProblem::Roots), "{file}");
    }
    let absent = load(Some(Path::new("absent.pem")), &Limits::PRODUCTION);
    assert_eq!(absent.err(), Some(TlsProblem::Roots));
}

#[test]
fn what_is_no_tls_is_no_session() {
    let rig = Rig::new();
    let config = load(None, &Limits::PRODUCTION);
    // Without the system's file there is nothing to test here but that it is said.
    let Ok(config) = config else {
        assert_eq!(config.err(), Some(TlsProblem::Roots));
        return;
    };
    for (answer, is_tls_problem) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], true),
        (b"", false),
    ] {
        let (near, mut far) = crate::net::pipe::pair(crate::net::pipe::Manners {
            capacity_bytes: 1 << 20,
            step_bytes: 1 << 20,
        });
        let config = config.clone();
        let host = Host::Name("a.test".to_owned());
        let task = rig.start(async move { connect(Wire::from(near), &host, config).await.err() });
        rig.hear(&mut far);
        rig.say(&mut far, answer);
        drop(far);
        rig.settle();
        let found = rig.take(task).unwrap();
        assert_eq!(
            matches!(found, Problem::Tls(_)),
            is_tls_problem,
            "{found:?}"
        );
    }
}
