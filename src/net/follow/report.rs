//! One batch of reports on its way to the service.
//!
//! Owns where it goes, and what an answer means for the spool; when to try is decided there.
//!
//! Always to the primary, whoever is followed: a backup stands in for the source of documents, and
//! what was counted at its instance would be missing where people look for it. It waits.
//!
//! A relay without an upstream of its own, but with a place in a region, hands reports to the node
//! that is primary for their slot, if that has one. While it has none, or nobody is primary, they
//! wait for one that has. Where no node has an upstream, reports are counted only, as on any
//! isolated site: what is handed around would never arrive.

use std::rc::Rc;

use crate::model::Role;
use crate::model::report::ReportKind;
use crate::net::driver::Driver;
use crate::net::region::replica;
use crate::net::upstream::UpstreamError;
use crate::net::upstream::error::Problem;
use crate::state::session::Loss;
use crate::state::spool::Outcome;
use crate::wire::usage;

/// Whether there is nobody, now or later, to whom reports could be delivered.
pub fn lets_go(driver: &Driver) -> bool {
    let follow = driver.follow.as_ref();
    let has_own = follow.is_some_and(|follow| follow.own(Role::Primary).is_some());
    !has_own && replica::is_isolated(driver)
}

/// Posts a batch.
pub async fn report(driver: &Rc<Driver>, kind: ReportKind, body: Vec<u8>) -> Outcome {
    let Some(follow) = &driver.follow else {
        return Outcome::Later(None);
    };
    let upstream = match follow.own(Role::Primary) {
        Some(primary) => Some(primary.clone()),
        None => replica::collector(driver, usage::slot(&body).as_ref()),
    };
    let Some(upstream) = upstream else {
        return Outcome::Later(None);
    };
    match upstream.report(&follow.net, kind, body).await {
        Ok(()) => Outcome::Delivered,
        Err(error) => outcome(&error),
    }
}

/// An answer speaks for itself; what else went wrong means the same as for a document.
fn outcome(error: &UpstreamError) -> Outcome {
    if let Problem::Status {
        status,
        retry_after,
    } = error.problem
    {
        return Outcome::of_status(status, retry_after);
    }
    match error.loss() {
        Loss::Denied => Outcome::Denied,
        Loss::Refused { retry_after } => Outcome::Later(retry_after),
        Loss::Unreachable
        | Loss::Closed
        | Loss::Silent
        | Loss::NoHeartbeat
        | Loss::Unusable
        | Loss::ClockNotSet => Outcome::Later(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn meant_by(problem: Problem) -> Outcome {
        outcome(&UpstreamError::new("service", problem))
    }

    fn status(status: u16) -> Outcome {
        let retry_after = Some(Duration::from_secs(9));
        meant_by(Problem::Status {
            status,
            retry_after,
        })
    }

    #[test]
    fn only_a_batch_that_is_refused_for_ever_is_set_aside() {
        for refused in [400, 404, 413] {
            assert_eq!(status(refused), Outcome::Refused, "{refused}");
        }
        for passing in [429, 500, 503] {
            let later = Outcome::Later(Some(Duration::from_secs(9)));
            assert_eq!(status(passing), later, "{passing}");
        }
        for denied in [401, 403] {
            assert_eq!(status(denied), Outcome::Denied, "{denied}");
        }
        let redirected = meant_by(Problem::Redirect { to: None });
        assert_eq!(
            redirected,
            Outcome::Later(None),
            "a login page is no answer"
        );
    }
}
