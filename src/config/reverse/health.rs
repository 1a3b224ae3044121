//! `HealthCheck` of a cluster, and the two entries of its `Metadata` that tune the checks.
//!
//! Owns names, defaults and bounds of the active and the passive check. Of one that is not enabled
//! only the types are looked at, as in YARP, so a policy of the operator's own code may stand
//! there.
//!
//! Defaults are YARP's: a probe every 15 s with 10 s to answer, two failures in a row; 60 s until
//! reactivation, a share of failures of 0.3.

use super::{metadata, part, scalar, value};
use crate::config::error::{Problem, ReverseProblem};
use crate::config::parse::Reader;
use crate::config::section::{Mistakes, Section};
use crate::model::proxy::{ActiveCheck, Available, Health, PassiveCheck};
use crate::time::Duration;

const THRESHOLD: &str = "ConsecutiveFailuresHealthPolicy.Threshold";
const RATE: &str = "TransportFailureRateHealthPolicy.RateLimit";

const INTERVAL: Duration = Duration::from_secs(15);
const TIMEOUT: Duration = Duration::from_secs(10);
const REACTIVATION: Duration = Duration::from_secs(60);

impl Reader<'_> {
    /// Takes `HealthCheck` and `Metadata` out of a cluster.
    pub fn health(&mut self, cluster: &mut Section<'_>) -> Health {
        let mistakes = &mut self.mistakes;
        let (mut failures, mut failure_rate) = (2, 0.3);
        let max = self.limits.proxy_entries_max;
        for (key, place) in metadata(cluster, &[THRESHOLD, RATE], max, mistakes) {
            if key == THRESHOLD {
                let found = scalar::whole(&place, mistakes, 1, 1_000_000);
                failures = found
                    .and_then(|found| u32::try_from(found).ok())
                    .unwrap_or(failures);
            } else {
                failure_rate = scalar::read(&place, mistakes, rate).unwrap_or(failure_rate);
            }
        }
        let Some(mut section) = part(cluster, "HealthCheck", mistakes) else {
            return Health::default();
        };
        const AVAILABLE: &[&str] = &["HealthyOrPanic", "HealthyAndUnknown"];
        let values = [Available::HealthyOrPanic, Available::HealthyAndUnknown];
        let available = value(&mut section, "AvailableDestinationsPolicy");
        let available =
            available.and_then(|place| scalar::choice(&place, mistakes, AVAILABLE, &values));
        let active = part(&mut section, "Active", mistakes);
        let interval_min = self.limits.probe_interval_min;
        let active = active.and_then(|part| active_check(part, failures, interval_min, mistakes));
        let passive = part(&mut section, "Passive", mistakes);
        let passive = passive.and_then(|part| passive_check(part, failure_rate, mistakes));
        section.finish(mistakes);
        Health {
            available: available.unwrap_or_default(),
            active,
            passive,
        }
    }
}

fn active_check(
    mut section: Section<'_>,
    failures: u32,
    interval_min: Duration,
    mistakes: &mut Mistakes,
) -> Option<ActiveCheck> {
    let enabled = is_enabled(&mut section, &["ConsecutiveFailures"], mistakes);
    let interval = value(&mut section, "Interval").and_then(|place| {
        let interval = scalar::duration(&place, mistakes)?;
        let min_s = interval_min.as_secs();
        let fits = interval >= interval_min || !enabled;
        let interval = fits
            .then_some(interval)
            .ok_or(ReverseProblem::TooOften { min_s }.into());
        mistakes.keep(&place.path, interval)
    });
    let timeout = value(&mut section, "Timeout");
    let timeout = timeout.and_then(|place| scalar::duration(&place, mistakes));
    let mut url_part = |key, with| {
        let place = value(&mut section, key)?;
        let read = |text: &str| begins(text, with, enabled);
        scalar::read(&place, mistakes, read)
    };
    let path = url_part("Path", "/");
    let query = url_part("Query", "?");
    section.finish(mistakes);
    enabled.then(|| ActiveCheck {
        interval: interval.unwrap_or(INTERVAL),
        timeout: timeout.unwrap_or(TIMEOUT),
        path: path.unwrap_or_default(),
        query: query.unwrap_or_default(),
        failures,
    })
}

fn passive_check(
    mut section: Section<'_>,
    failure_rate: f64,
    mistakes: &mut Mistakes,
) -> Option<PassiveCheck> {
    let enabled = is_enabled(&mut section, &["TransportFailureRate"], mistakes);
    let reactivation = value(&mut section, "ReactivationPeriod");
    let reactivation = reactivation.and_then(|place| scalar::duration(&place, mistakes));
    section.finish(mistakes);
    enabled.then(|| PassiveCheck {
        reactivation: reactivation.unwrap_or(REACTIVATION),
        failure_rate,
    })
}

/// `Enabled`, and a `Policy` of the only one that there is.
fn is_enabled(
    section: &mut Section<'_>,
    policies: &'static [&'static str],
    mistakes: &mut Mistakes,
) -> bool {
    let enabled = value(section, "Enabled");
    let enabled = enabled
        .and_then(|place| scalar::flag(&place, mistakes))
        .unwrap_or(false);
    if let Some(place) = value(section, "Policy").filter(|_| enabled) {
        scalar::choice(&place, mistakes, policies, &[()]);
    }
    enabled
}

fn rate(text: &str) -> Result<f64, Problem> {
    let rate = text.trim().parse::<f64>().ok();
    let fits = |rate: &f64| *rate > 0.0 && *rate <= 1.0;
    rate.filter(fits).ok_or(ReverseProblem::NotARate.into())
}

/// A part of the target of a probe.
fn begins(text: &str, with: &'static str, enabled: bool) -> Result<Box<str>, Problem> {
    let legal = |byte: u8| matches!(byte, 0x21..=0x7e) && byte != b'#';
    let is_path = with != "/" || !text.contains('?');
    match !enabled || (text.starts_with(with) && is_path && text.bytes().all(legal)) {
        true => Ok(text.into()),
        false => Err(ReverseProblem::MustBegin { with }.into()),
    }
}
