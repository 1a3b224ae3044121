//! Will clients accept the certificate?
//!
//! Looks at its dates, its key and its names. Whether clients trust who signed it is theirs to say:
//! the relay does not know their roots.

use super::keys::warn_if_open;
use super::{Report, Severity};
use crate::config::{Config, Listen, Tls};
use crate::time::Wall;
use crate::wire::x509;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

/// A chain of certificates or a key; real ones have a few KiB.
const PEM_BYTES_MAX: usize = 256 * 1024;

/// Time for an operator to bring a new certificate to the site.
const EXPIRY_NOTICE_SECONDS: u64 = 30 * 24 * 3600;

/// Looks at `tls`; `now` is the wall clock. Without `tls` there is nothing to look at.
pub fn check(config: &Config, now: Wall, report: &mut Report) {
    let Some(tls) = &config.tls else { return };
    let errors = report.count(Severity::Error);
    // Without a chain or a key it was said why, and there is nothing to be sure of.
    let chain = chain(tls, report);
    let key = key(tls, report);
    let Some(leaf) = chain.first() else { return };
    for certificate in &chain {
        check_dates(tls, certificate, now, report);
    }
    check_names(config, tls, leaf, report);
    let Some(key) = key else { return };
    let provider = rustls::crypto::ring::default_provider();
    if let Err(error) = CertifiedKey::from_der(chain, key, &provider) {
        let (cert, key) = (tls.cert.display(), tls.key.display());
        report.error(format_args!(
            "$.tls: {key} does not go with {cert}: {error}"
        ));
    }
    if report.count(Severity::Error) == errors {
        report.sound("certificate: can be read, goes with its key, and is valid");
    }
}

fn chain(tls: &Tls, report: &mut Report) -> Vec<CertificateDer<'static>> {
    let shown = tls.cert.display();
    let Some(pem) = report.read("$.tls.cert", &tls.cert, PEM_BYTES_MAX) else {
        return Vec::new();
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match chain {
        Ok(chain) => {
            if chain.is_empty() {
                report.error(format_args!("$.tls.cert: no certificate in {shown}"));
            }
            chain
        }
        Err(error) => {
            report.error(format_args!("$.tls.cert: {shown} is no PEM file: {error}"));
            Vec::new()
        }
    }
}

fn key(tls: &Tls, report: &mut Report) -> Option<PrivateKeyDer<'static>> {
    let shown = tls.key.display();
    let pem = report.read("$.tls.key", &tls.key, PEM_BYTES_MAX)?;
    warn_if_open("$.tls.key", &tls.key, report);
    let key = PrivateKeyDer::from_pem_slice(&pem);
    key.map_err(|error| report.error(format_args!("$.tls.key: no key in {shown}: {error}")))
        .ok()
}

fn check_dates(tls: &Tls, certificate: &CertificateDer<'_>, now: Wall, report: &mut Report) {
    let shown = tls.cert.display();
    let Some(validity) = x509::validity(certificate) else {
        report.error(format_args!(
            "$.tls.cert: {shown} holds no X.509 certificate"
        ));
        return;
    };
    // Of a clock that was never set nothing follows; `machine` reports the clock itself.
    if !now.is_plausible() {
        return;
    }
    let (start, end) = (validity.not_before, validity.not_after);
    if end < now {
        report.error(format_args!("$.tls.cert: {shown} ended on {}", date(end)));
    } else if end.as_unix() - now.as_unix() < EXPIRY_NOTICE_SECONDS {
        report.warning(format_args!("$.tls.cert: {shown} ends on {}", date(end)));
    }
    if start > now {
        let start = date(start);
        report.error(format_args!(
            "$.tls.cert: {shown} is not valid before {start}"
        ));
    }
}

/// `2026-08-01`.
fn date(time: Wall) -> String {
    // What the formatter cannot write is past its last day.
    let last = Wall::from_unix(253_402_300_799);
    let text = humantime::format_rfc3339_seconds(time.min(last).to_system()).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

fn check_names(config: &Config, tls: &Tls, leaf: &CertificateDer<'_>, report: &mut Report) {
    let shown = tls.cert.display();
    let parsed = match ParsedCertificate::try_from(leaf) {
        Ok(parsed) => parsed,
        Err(error) => {
            report.error(format_args!("$.tls.cert: {shown} cannot be read: {error}"));
            return;
        }
    };
    let lacks = |name: &String| match ServerName::try_from(name.as_str()) {
        Ok(name) => verify_server_name(&parsed, &name).is_err(),
        Err(_) => false,
    };
    let played: Vec<String> = played_names(config).into_iter().filter(lacks).collect();
    if !played.is_empty() {
        let names = played.join(", ");
        report.warning(format_args!(
            "$.tls.cert: {shown} is not for {names}: SDKs that are led to the relay by these \
             names, as they are for tokens, will not trust it"
        ));
    }
    for (path, name) in listen_names(config) {
        if lacks(&name) {
            report.warning(format_args!("{path}: {shown} is not for {name}"));
        }
    }
}

/// The service's hosts in whose place the relay answers.
fn played_names(config: &Config) -> Vec<String> {
    let mut names = vec!["iam.cloud.ibm.com".into(), "iam.test.cloud.ibm.com".into()];
    if let Some(region) = &config.instance.region {
        names.push(format!("{region}.apprapp.cloud.ibm.com"));
    }
    names.extend(config.connect.allow.iter().cloned());
    names
}

/// The addresses by which SDKs reach the relay, as far as the configuration tells.
fn listen_names(config: &Config) -> Vec<(String, String)> {
    let address = |(index, listen): (usize, &Listen)| match listen {
        Listen::Tcp(address) if !address.ip().is_unspecified() => {
            Some((format!("$.listen[{index}]"), address.ip().to_string()))
        }
        Listen::Tcp(_) | Listen::Unix(_) => None,
    };
    let listen = config.listen.iter().enumerate();
    listen.filter_map(address).collect()
}
