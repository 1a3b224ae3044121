//! Certificates as their clients see them: rustls in memory, and OpenSSL where it is installed.

use super::*;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

/// 2026-08-01.
const NOW: Wall = Wall::from_unix(1_785_542_400);

/// A folder that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let name = format!("staffetta-cert-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Scratch(path)
    }

    fn make(&self, names: &[&str], force: bool, now: Wall) -> Result<Made, CertError> {
        self.make_for(names, &[], force, now)
    }

    fn make_for(
        &self,
        names: &[&str],
        sites: &[&str],
        force: bool,
        now: Wall,
    ) -> Result<Made, CertError> {
        let names = names.iter().map(|name| Name::parse(name).unwrap());
        let sites = sites.iter().map(|site| Site::parse(site).unwrap());
        let request = Request {
            directory: self.0.clone(),
            names: names.collect(),
            sites: sites.collect(),
            force,
        };
        make(&request, now)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A whole TLS handshake in memory, as a client that knows the relay by `name`.
fn handshake(scratch: &Scratch, name: &str) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&scratch.read("ca.crt")).unwrap())?;
    let client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let chain = scratch.read("relay.crt");
    let chain = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(&scratch.read("relay.key")).unwrap();
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    while client.is_handshaking() {
        let mut sent = Vec::new();
        client.write_tls(&mut sent).unwrap();
        server.read_tls(&mut sent.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut answer = Vec::new();
        server.write_tls(&mut answer).unwrap();
        client.read_tls(&mut answer.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

#[test]
fn clients_that_trust_the_ca_accept_every_name_of_the_relay() {
    let scratch = Scratch::new("names");
    scratch
        .make(
            &["gw-3.plant.local", "10.1.2.3", "*.site.local"],
            false,
            NOW,
        )
        .unwrap();
    let names = [
        "localhost",
        "127.0.0.1",
        "::1",
        "iam.cloud.ibm.com",
        "iam.test.cloud.ibm.com",
        "private.iam.cloud.ibm.com",
        "us-south.apprapp.cloud.ibm.com",
        "zz-new.apprapp.cloud.ibm.com",
        "private.eu-de.apprapp.cloud.ibm.com",
        "gw-3.plant.local",
        "10.1.2.3",
        "a.site.local",
    ];
    for name in names {
        assert_eq!(handshake(&scratch, name), Ok(()), "{name}");
    }
    for name in ["example.com", "127.0.0.2", "cloud.ibm.com"] {
        assert!(handshake(&scratch, name).is_err(), "{name}");
    }
}

#[test]
fn openssl_agrees() {
    let scratch = Scratch::new("openssl");
    scratch
        .make(&["gw-3.plant.local", "10.1.2.3", "fd00::7"], false, NOW)
        .unwrap();
    let verify = |arguments: &[&str]| {
        let output = std::process::Command::new("openssl")
            .args([
                "verify",
                "-x509_strict",
                "-purpose",
                "sslserver",
                "-CAfile",
                "ca.crt",
            ])
            .args(arguments)
            .arg("relay.crt")
            .current_dir(&scratch.0)
            .output();
        output.ok().map(|output| output.status.success())
    };
    if verify(&[]).is_none() {
        return;
    }
    for (option, name) in [
        ("-verify_hostname", "localhost"),
        ("-verify_hostname", "gw-3.plant.local"),
        ("-verify_hostname", "iam.test.cloud.ibm.com"),
        ("-verify_hostname", "us-south.apprapp.cloud.ibm.com"),
        ("-verify_hostname", "private.us-south.apprapp.cloud.ibm.com"),
        ("-verify_ip", "127.0.0.1"),
        ("-verify_ip", "::1"),
        ("-verify_ip", "10.1.2.3"),
        ("-verify_ip", "fd00::7"),
        // A client whose clock starts in 1970.
        ("-attime", "60"),
        ("-attime", "2000000000"),
    ] {
        assert_eq!(verify(&[option, name]), Some(true), "{option} {name}");
    }
    assert_eq!(verify(&["-verify_hostname", "example.com"]), Some(false));
    assert_eq!(verify(&["-attime", "2200000000"]), Some(false));
}

#[test]
fn only_the_owner_reads_private_keys() {
    let scratch = Scratch::new("modes");
    scratch.make(&[], false, NOW).unwrap();
    for (name, mode) in [
        ("ca.key", 0o600),
        ("relay.key", 0o600),
        ("ca.crt", 0o644),
        ("relay.crt", 0o644),
        ("bundle.crt", 0o644),
    ] {
        let found = fs::metadata(scratch.0.join(name)).unwrap().permissions();
        assert_eq!(found.mode() & 0o777, mode, "{name}");
    }
    let (ca, bundle) = (scratch.read("ca.crt"), scratch.read("bundle.crt"));
    assert!(bundle.ends_with(&ca));
}

#[test]
fn what_exists_is_replaced_by_force_and_the_ca_never() {
    let scratch = Scratch::new("force");
    assert!(!scratch.make(&[], false, NOW).unwrap().authority_kept);
    let (ca, key) = (scratch.read("ca.crt"), scratch.read("ca.key"));
    let server = scratch.read("relay.crt");
    assert!(
        matches!(scratch.make(&[], false, NOW), Err(CertError::Exists(files)) if files.len() == 3)
    );
    assert_eq!(scratch.read("relay.crt"), server);
    assert!(scratch.make(&[], true, NOW).unwrap().authority_kept);
    assert_eq!((scratch.read("ca.crt"), scratch.read("ca.key")), (ca, key));
    assert_ne!(scratch.read("relay.crt"), server);
    assert_eq!(handshake(&scratch, "localhost"), Ok(()));
}

#[test]
fn names_beyond_the_ca_are_refused_before_anything_is_written() {
    let scratch = Scratch::new("beyond");
    scratch.make(&["plant.local"], false, NOW).unwrap();
    scratch.make(&["gw.plant.local"], true, NOW).unwrap();
    let server = scratch.read("relay.crt");
    let error = scratch.make(&["gw.plant.local", "other.local", "10.9.9.9"], true, NOW);
    let text = error.err().unwrap().to_string();
    assert!(
        text.contains("was not made for other.local, 10.9.9.9:"),
        "{text}"
    );
    assert_eq!(scratch.read("relay.crt"), server);
}

#[test]
fn one_ca_signs_for_every_gateway_of_its_sites() {
    let scratch = Scratch::new("sites");
    let sites = ["plant.local", "10.20.0.0/16", "gw3"];
    scratch
        .make_for(&["gw1.plant.local"], &sites, false, NOW)
        .unwrap();
    let ca = scratch.read("ca.crt");
    let made = scratch.make(&["gw2.plant.local", "10.20.0.8", "gw3"], true, NOW);
    assert_eq!(made.unwrap().dropped.len(), 1, "gw1's own");
    assert_eq!(scratch.read("ca.crt"), ca);
    for name in ["gw2.plant.local", "10.20.0.8", "gw3", "localhost"] {
        assert_eq!(handshake(&scratch, name), Ok(()), "{name}");
    }
    assert!(scratch.make(&["10.21.0.8"], true, NOW).is_err());
    let wider = scratch.make_for(&["gw4"], &["gw4"], true, NOW);
    assert!(matches!(wider, Err(CertError::FixedAuthority)));
}

#[test]
fn a_renewal_keeps_the_names() {
    let scratch = Scratch::new("renewal");
    let names = ["gw.plant.local", "10.1.2.3"];
    scratch.make(&names, false, NOW).unwrap();
    let server = scratch.read("relay.crt");
    let made = scratch.make(&[], true, NOW).unwrap();
    assert_eq!((made.names.len(), made.dropped.len()), (2, 0));
    assert_ne!(scratch.read("relay.crt"), server);
    for name in names {
        assert_eq!(handshake(&scratch, name), Ok(()), "{name}");
    }
    fs::write(scratch.0.join("relay.crt"), "torn").unwrap();
    let unknown = scratch.make(&[], true, NOW);
    assert!(matches!(unknown, Err(CertError::UnknownNames)));
    assert!(scratch.make(&["gw.plant.local"], true, NOW).is_ok());
}

#[test]
fn a_ca_without_its_other_half_is_refused() {
    let scratch = Scratch::new("half");
    let stranger = Scratch::new("stranger");
    scratch.make(&[], false, NOW).unwrap();
    stranger.make(&[], false, NOW).unwrap();
    fs::write(scratch.0.join("ca.key"), stranger.read("ca.key")).unwrap();
    let mismatch = scratch.make(&[], true, NOW);
    assert!(matches!(
        mismatch,
        Err(CertError::Issue(IssueError::CaMismatch))
    ));
    fs::remove_file(scratch.0.join("ca.key")).unwrap();
    let missing = "ca.key";
    let half = scratch.make(&[], true, NOW);
    assert!(matches!(half, Err(CertError::HalfAuthority { missing: name }) if name == missing));
    fs::write(scratch.0.join("ca.key"), "not a key").unwrap();
    let torn = scratch.make(&[], true, NOW);
    assert!(matches!(torn, Err(CertError::Issue(IssueError::CaKey(_)))));
}

#[test]
fn a_clock_at_1970_makes_certificates_that_last() {
    let scratch = Scratch::new("clock");
    scratch.make(&[], false, Wall::from_unix(60)).unwrap();
    let pem = scratch.read("relay.crt");
    let der = CertificateDer::from_pem_slice(&pem).unwrap();
    let validity = crate::wire::x509::validity(&der).unwrap();
    assert_eq!(validity.not_before, Wall::from_unix(0));
    assert!(validity.not_after > Wall::from_unix(2_000_000_000));
}
