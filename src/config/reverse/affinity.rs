//! `SessionAffinity` of a cluster.
//!
//! Only HashCookie is done: the other policies need keys that several proxies would have to share,
//! or put the client's binding into headers. Where affinity is not enabled any policy may stand,
//! as in YARP, which checks types then and nothing else.
//!
//! What ASP.NET takes at load and fails on at the first answer is refused here: names that are no
//! token, attributes with a `;`, lifetimes that round to zero.

use super::{part, scalar, value};
use crate::config::error::{Problem, ReverseConcern, ReverseProblem};
use crate::config::parse::Reader;
use crate::config::section::{Mistakes, Place, Section};
use crate::model::proxy::{Affinity, CookieShape, FailurePolicy, SameSite, Secure};

const POLICIES: &[&str] = &["HashCookie", "ArrCookie", "Cookie", "CustomHeader"];
const FAILURES: &[&str] = &["Redistribute", "Return503Error"];

impl Reader<'_> {
    /// `None` where affinity is not enabled, or a mistake was noted.
    pub fn affinity(&mut self, mut section: Section<'_>, has_tls: bool) -> Option<Affinity> {
        let mistakes = &mut self.mistakes;
        let enabled = value(&mut section, "Enabled");
        let enabled = enabled
            .and_then(|place| scalar::flag(&place, mistakes))
            .unwrap_or(false);
        if let Some(place) = value(&mut section, "Policy").filter(|_| enabled) {
            let policy = scalar::choice(&place, mistakes, POLICIES, &[true, false, false, false]);
            if policy == Some(false) {
                let instead = "set HashCookie; clients get a new cookie once";
                mistakes.error(&place.path, ReverseProblem::NotDone { instead }.into());
            }
        }
        let failure = value(&mut section, "FailurePolicy").filter(|_| enabled);
        let values = [FailurePolicy::Redistribute, FailurePolicy::Refuse];
        let failure = failure.and_then(|place| scalar::choice(&place, mistakes, FAILURES, &values));
        let path = section.path_of("AffinityKeyName");
        let name = value(&mut section, "AffinityKeyName");
        if enabled && name.is_none() {
            mistakes.error(&path, Problem::Missing);
        }
        let name = name.filter(|_| enabled);
        let name = name.and_then(|place| scalar::read(&place, mistakes, cookie_name));
        let whole = section.path.clone();
        let cookie = part(&mut section, "Cookie", mistakes);
        let cookie = cookie.map(|section| cookie_shape(section, enabled, mistakes));
        let cookie = cookie.unwrap_or_default();
        section.finish(mistakes);
        if !enabled {
            return None;
        }
        if cookie.same_site == Some(SameSite::None) && cookie.secure != Secure::Always {
            let path = format!("{whole}.Cookie.SameSite");
            mistakes.warning(&path, ReverseConcern::SameSiteNoneWithoutSecure.into());
        } else if has_tls && cookie.secure == Secure::Never {
            let path = format!("{whole}.Cookie.SecurePolicy");
            mistakes.warning(&path, ReverseConcern::CookieInTheOpen.into());
        }
        Some(Affinity {
            failure: failure.unwrap_or_default(),
            cookie_name: name?,
            cookie,
        })
    }
}

/// The attributes; where affinity is not enabled only their types are looked at.
fn cookie_shape(mut section: Section<'_>, enabled: bool, mistakes: &mut Mistakes) -> CookieShape {
    const SAME_SITES: &[&str] = &["Unspecified", "None", "Lax", "Strict"];
    const SECURES: &[&str] = &["SameAsRequest", "Always", "None"];
    let usual = CookieShape::default();
    let path = section.take("Path").and_then(|place| {
        let path = attribute(&place, enabled, mistakes)?;
        if enabled && !path.starts_with('/') {
            mistakes.warning(&place.path, ReverseConcern::PathWithoutSlash.into());
        }
        Some(path)
    });
    let domain = section.take("Domain");
    let domain = domain.and_then(|place| attribute(&place, enabled, mistakes));
    let expiration = value(&mut section, "Expiration");
    let expiration = expiration.and_then(|place| scalar::duration(&place, mistakes));
    let max_age = value(&mut section, "MaxAge").and_then(|place| {
        let max_age = scalar::duration(&place, mistakes)?;
        let is_sent = max_age.as_secs() > 0 || !enabled;
        let sent = is_sent
            .then_some(max_age)
            .ok_or(ReverseProblem::SubSecond.into());
        mistakes.keep(&place.path, sent)
    });
    let http_only = value(&mut section, "HttpOnly");
    let http_only = http_only.and_then(|place| scalar::flag(&place, mistakes));
    if let Some(place) = value(&mut section, "IsEssential") {
        // For a consent dialogue within the same program: there is none.
        scalar::flag(&place, mistakes);
    }
    let same_site = value(&mut section, "SameSite").and_then(|place| {
        let values = [
            None,
            Some(SameSite::None),
            Some(SameSite::Lax),
            Some(SameSite::Strict),
        ];
        scalar::choice(&place, mistakes, SAME_SITES, &values)
    });
    let secure = value(&mut section, "SecurePolicy").and_then(|place| {
        let values = [Secure::SameAsRequest, Secure::Always, Secure::Never];
        scalar::choice(&place, mistakes, SECURES, &values)
    });
    section.finish(mistakes);
    CookieShape {
        path: path.unwrap_or(usual.path),
        domain,
        expiration,
        max_age,
        http_only: http_only.unwrap_or(usual.http_only),
        same_site: same_site.flatten(),
        secure: secure.unwrap_or_default(),
    }
}

fn cookie_name(text: &str) -> Result<Box<str>, Problem> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match text.bytes().all(legal) {
        true => Ok(text.into()),
        false => Err(ReverseProblem::NotAToken.into()),
    }
}

/// Text that goes into `Set-Cookie` as it is.
fn attribute(place: &Place<'_>, enabled: bool, mistakes: &mut Mistakes) -> Option<Box<str>> {
    scalar::read(place, mistakes, |text| {
        let legal = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b';';
        match !enabled || (!text.is_empty() && text.bytes().all(legal)) {
            true => Ok(text.into()),
            false => Err(ReverseProblem::NotAnAttribute.into()),
        }
    })
}
