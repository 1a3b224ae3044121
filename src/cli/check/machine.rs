//! Does the machine have what the configuration asks for: time, descriptors, memory?
//!
//! All of it is warned about and nothing refused: the relay serves with fewer connections, and a
//! clock may be set later.

use super::Report;
use super::seed::Documents;
use crate::config::Config;
use crate::limits::{Limits, MemoryLoad};
use crate::time::Wall;
use rustix::process::{Resource, getrlimit};
use std::cmp::Reverse;

const MIB: usize = 1024 * 1024;

/// Looks at the clock (`now`), the descriptors of this process and the memory sum.
pub fn check(
    config: &Config,
    documents: &Documents,
    limits: &Limits,
    now: Wall,
    report: &mut Report,
) {
    if !now.is_plausible() {
        report.warning(
            "the clock of this machine was never set: clients see wrong dates and ages, and \
             certificates cannot be judged",
        );
    }
    // `run` raises the soft limit to the hard one.
    let descriptors = getrlimit(Resource::Nofile).maximum;
    check_descriptors(config, limits, descriptors, report);
    check_memory(config, documents, limits, report);
}

/// `None` = unlimited.
fn check_descriptors(
    config: &Config,
    limits: &Limits,
    descriptors: Option<u64>,
    report: &mut Report,
) {
    let connections = config.limits.connections;
    let needed = limits.descriptors(&config.load());
    if let Some(found) = descriptors
        && found < needed
    {
        report.warning(format_args!(
            "$.limits.connections: {connections} connections need {needed} descriptors, and \
             {found} are allowed here; `ulimit -Hn`, or `LimitNOFILE=` of the unit, sets them"
        ));
    }
}

fn check_memory(config: &Config, documents: &Documents, limits: &Limits, report: &mut Report) {
    let load = MemoryLoad {
        seed_bytes: documents.seed_bytes,
        document_bytes: documents.document_bytes,
        largest_document_bytes: documents.largest_document_bytes,
        ..config.load()
    };
    // Nobody is asked, so nobody knows.
    let without = match (load.document_bytes, load.upstreams) {
        (0, 1..) => "; the documents of the upstream, about 18 times their size, are not in it",
        _ => "",
    };
    let bound = config.limits.memory_bytes;
    let sum = limits.memory_bytes_max(&load);
    let mut holders = limits.memory_holders(&load);
    holders.sort_by_key(|(_, bytes)| Reverse(*bytes));
    let largest = holders.iter().take(3);
    let largest = largest.map(|(holder, bytes)| format!("{holder} {}", mebibytes(*bytes)));
    let largest = largest.collect::<Vec<_>>().join(", ");
    let (shown, allowed) = (mebibytes(sum), mebibytes(bound));
    match sum <= bound {
        true => report.sound(format_args!(
            "memory: at most {shown} of {allowed} (above all {largest}){without}"
        )),
        false => report.warning(format_args!(
            "$.limits.memory: the relay may need {shown}, and {allowed} are configured (above \
             all {largest}){without}: raise it, or lower $.limits.connections"
        )),
    }
}

/// One decimal, rounded up, so that what does not fit does not look as if it did.
fn mebibytes(bytes: usize) -> String {
    let tenths = bytes.saturating_mul(10).div_ceil(MIB);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Environment;
    use std::path::Path;

    const CONFIG: &[u8] = br#"{ "instance": {"guid": "g"}, "limits": {"connections": 100},
        "slots": [{"collection": "c", "environment": "e"}] }"#;

    fn report(look: impl FnOnce(&Config, &Limits, &mut Report)) -> Report {
        let limits = Limits::PRODUCTION;
        let config = Config::parse(CONFIG, &Environment::default(), &limits).unwrap();
        let mut report = Report::new(Path::new("config.json"));
        look(&config, &limits, &mut report);
        report
    }

    #[test]
    fn too_few_descriptors_are_a_warning() {
        for (descriptors, warnings) in [(Some(243), 1), (Some(244), 0), (None, 0)] {
            let report = report(|config, limits, report| {
                check_descriptors(config, limits, descriptors, report);
            });
            assert_eq!(report.findings.len(), warnings, "{descriptors:?}");
        }
    }

    #[test]
    fn documents_that_outgrow_the_memory_are_a_warning() {
        for (document_bytes, warnings) in [(50_000, 0), (4 * MIB, 1)] {
            let documents = Documents {
                seed_bytes: document_bytes,
                document_bytes,
                largest_document_bytes: document_bytes,
            };
            let report = report(|config, limits, report| {
                check_memory(config, &documents, limits, report);
            });
            assert_eq!(report.findings.len(), warnings, "{document_bytes}");
            assert_eq!(report.sound.len(), 1 - warnings);
        }
    }

    #[test]
    fn documents_that_only_the_upstream_knows_are_told_apart() {
        let with = |upstream: &str| {
            let text = format!(
                r#"{{"instance": {{"guid": "g"}}, "slots": [{{"collection": "c",
                   "environment": "e"}}]{upstream}}}"#
            );
            let limits = Limits::PRODUCTION;
            let parsed = Config::parse(text.as_bytes(), &Environment::default(), &limits);
            let mut report = Report::new(Path::new("config.json"));
            check_memory(
                &parsed.unwrap(),
                &Documents::default(),
                &limits,
                &mut report,
            );
            report.sound.remove(0)
        };
        let upstream = r#", "upstream": {"primary": {"url": "https://h", "api_key": "k"}}"#;
        assert!(with(upstream).contains("documents of the upstream"));
        assert!(!with("").contains("upstream"));
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(mebibytes(0), "0.0 MiB");
        assert_eq!(mebibytes(32 * MIB), "32.0 MiB");
        assert_eq!(mebibytes(32 * MIB + 1), "32.1 MiB");
    }
}
