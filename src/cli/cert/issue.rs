//! The site's CA and the certificates that it signs.
//!
//! The CA can sign only for the names that it was made for (name constraints): a stolen `ca.key` is
//! no key to the rest of the internet. Every certificate is verified against the CA before it is
//! handed out, by the same code that clients in this language run, so that what does not verify is
//! found here and not in the field.
//!
//! Clocks: certificates are valid from 1970, because a client without a battery lives there until
//! it finds a clock server. They end 10 years (server) and 20 years (CA) from now; a clock that was
//! never set counts as `CLOCK_FLOOR`, or they would have ended long ago. Browsers limit the life of
//! certificates under their own roots only, not under a root that the site added.

use super::names::{Name, Site, permitted};
use crate::time::{Duration, Wall};
use crate::wire::x509;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, PublicKeyData as _, SanType, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use std::fmt;

const DAY: u64 = 24 * 3600;
const SERVER_LIFE: u64 = 3653 * DAY;
const CA_LIFE: u64 = 7305 * DAY;
/// 2026-01-01: no clock that shows less was ever set.
const CLOCK_FLOOR: u64 = 1_767_225_600;
/// 2200-01-01: no clock that shows more is right, and the arithmetic of dates ends somewhere.
const CLOCK_CEILING: u64 = 7_258_118_400;

/// A certificate and its private key, as PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// Why there is no certificate.
#[derive(Debug)]
pub enum IssueError {
    /// The generator refused: its own reason.
    Generator(rcgen::Error),
    /// `ca.key` is no private key that signs.
    CaKey(rcgen::Error),
    /// `ca.crt` holds no certificate.
    CaCertificate,
    /// `ca.key` belongs to another certificate than `ca.crt`.
    CaMismatch,
    /// The CA was made for other names than these.
    NotPermitted(Vec<Name>),
    /// What was made does not verify: the verifier's reason.
    Unverified(rustls::Error),
}

impl From<rcgen::Error> for IssueError {
    fn from(error: rcgen::Error) -> IssueError {
        IssueError::Generator(error)
    }
}

impl fmt::Display for IssueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IssueError::Generator(error) => write!(f, "no certificate could be made: {error}"),
            IssueError::CaKey(error) => write!(f, "ca.key is no private key: {error}"),
            IssueError::CaCertificate => f.write_str("ca.crt holds no certificate in PEM"),
            IssueError::CaMismatch => f.write_str("ca.key is not the key of ca.crt"),
            IssueError::NotPermitted(names) => {
                let names: Vec<String> = names.iter().map(Name::to_string).collect();
                let names = names.join(", ");
                write!(
                    f,
                    "the CA in ca.crt was not made for {names}: leave these names out, or make a \
                     new CA in another --dir, with --site for the names and networks of all \
                     gateways (every client must then trust that one)"
                )
            }
            IssueError::Unverified(error) => {
                write!(
                    f,
                    "the new certificate does not verify against ca.crt: {error}"
                )
            }
        }
    }
}

/// The site's CA, ready to sign.
pub struct Authority {
    certificate: CertificateDer<'static>,
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    /// Makes a CA that can sign for `names` and whatever is in `sites`.
    pub fn new(names: &[Name], sites: &[Site], now: Wall) -> Result<(Authority, Pair), IssueError> {
        let key = KeyPair::generate()?;
        let mut params = ca_params(&key);
        params.not_before = date_time_ymd(1970, 1, 1);
        params.not_after = params.not_before + end(now, CA_LIFE);
        params.name_constraints = Some(constraints(names, sites));
        let certificate = params.self_signed(&key)?;
        let pair = Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        };
        let certificate = certificate.into();
        let authority = Authority {
            certificate,
            params,
            key,
        };
        Ok((authority, pair))
    }

    /// Takes up a CA that [`Authority::new`] made, from its files.
    pub fn existing(certificate: &[u8], key: &[u8]) -> Result<Authority, IssueError> {
        let key = std::str::from_utf8(key)
            .map_err(|_| IssueError::CaKey(rcgen::Error::CouldNotParseKeyPair))
            .and_then(|pem| KeyPair::from_pem(pem).map_err(IssueError::CaKey))?;
        let certificate =
            CertificateDer::from_pem_slice(certificate).map_err(|_| IssueError::CaCertificate)?;
        let public = key.subject_public_key_info();
        if !certificate.windows(public.len()).any(|part| part == public) {
            return Err(IssueError::CaMismatch);
        }
        Ok(Authority {
            certificate,
            params: ca_params(&key),
            key,
        })
    }

    /// The names of a certificate in PEM; none if it cannot be read.
    pub fn names_of(certificate: &[u8]) -> Option<Vec<Name>> {
        let certificate = CertificateDer::from_pem_slice(certificate).ok()?;
        let names = x509::alternative_names(&certificate)?;
        let names = names.into_iter().map(|name| match name {
            x509::AlternativeName::Host(host) => Name::parse(host),
            x509::AlternativeName::Address(address) => Some(Name::Address(address)),
        });
        names.collect()
    }

    /// Signs a server certificate with a new key.
    pub fn issue(&self, names: &[Name], now: Wall) -> Result<Pair, IssueError> {
        let key = KeyPair::generate()?;
        let certificate = self.sign(names, &key, now)?;
        let Err(error) = self.verify(certificate.der(), now) else {
            return Ok(Pair {
                certificate: certificate.pem(),
                key: key.serialize_pem(),
            });
        };
        let mut refused = Vec::new();
        for name in names {
            let single = self.sign(std::slice::from_ref(name), &key, now)?;
            if self.verify(single.der(), now).is_err() {
                refused.push(name.clone());
            }
        }
        // Every name refused, or none: then it is not about names.
        match (1..names.len()).contains(&refused.len()) {
            true => Err(IssueError::NotPermitted(refused)),
            false => Err(IssueError::Unverified(error)),
        }
    }

    fn sign(
        &self,
        names: &[Name],
        key: &KeyPair,
        now: Wall,
    ) -> Result<rcgen::Certificate, IssueError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named("Staffetta relay");
        params.subject_alt_names = names.iter().map(subject).collect::<Result<_, _>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = date_time_ymd(1970, 1, 1);
        params.not_after = params.not_before + end(now, SERVER_LIFE);
        // A certificate that outlives its CA looks valid and is refused.
        if let Some(ca) = x509::validity(&self.certificate) {
            let end = params.not_before + since_1970(ca.not_after.as_unix());
            params.not_after = params.not_after.min(end);
        }
        let issuer = Issuer::from_params(&self.params, &self.key);
        Ok(params.signed_by(key, &issuer)?)
    }

    fn verify(&self, certificate: &CertificateDer<'_>, now: Wall) -> Result<(), rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let certificate = ParsedCertificate::try_from(certificate)?;
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let now = UnixTime::since_unix_epoch(since_1970(now.as_unix()));
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, &[], now, algorithms.all)
    }
}

/// All of the CA but its dates and constraints. Its name comes from its key, so that two sites' CAs
/// in one trust store are told apart, and so that the key alone is enough to sign again.
fn ca_params(key: &KeyPair) -> CertificateParams {
    let digest = ring::digest::digest(&ring::digest::SHA256, &key.subject_public_key_info());
    let number = data_encoding::HEXLOWER.encode(digest.as_ref().get(..4).unwrap_or_default());
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("Staffetta site CA {number}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

fn constraints(names: &[Name], sites: &[Site]) -> NameConstraints {
    let (hosts, networks) = permitted(names, sites);
    let hosts = hosts.into_iter().map(GeneralSubtree::DnsName);
    let networks = networks.into_iter().map(|(address, prefix)| {
        GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, prefix))
    });
    NameConstraints {
        permitted_subtrees: hosts.chain(networks).collect(),
        excluded_subtrees: Vec::new(),
    }
}

fn subject(name: &Name) -> Result<SanType, IssueError> {
    Ok(match name {
        Name::Host(host) => SanType::DnsName(Ia5String::try_from(host.as_str())?),
        Name::Address(address) => SanType::IpAddress(*address),
    })
}

/// From 1970 to `life` seconds from now.
fn end(now: Wall, life: u64) -> Duration {
    since_1970(now.as_unix().clamp(CLOCK_FLOOR, CLOCK_CEILING) + life)
}

const fn since_1970(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
