//! The numbers about upstreams: whom each slot follows, and what that has cost so far.
//!
//! On an isolated site there are none of them but the counters of fetches, which stay at zero; nor
//! of an operator's slot, which follows nobody. A role has a series for each slot that may follow
//! it, whether it does or not, so that a sum over slots is never short of one.

use super::{Scrape, Text};
use crate::model::Role;
use crate::wire::status::{Following, Link, LinkPhase, Slot, Token};
use std::fmt;

impl Scrape {
    pub(super) fn upstream(&self, text: &mut Text<'_>) -> fmt::Result {
        let counters = &self.counters;
        text.counter(
            "upstream_fetches",
            "Documents fetched from an upstream, changed or not.",
            counters.upstream_fetches,
        )?;
        text.counter(
            "upstream_fetches_failed",
            "Fetches that brought no document that can be served.",
            counters.upstream_fetches_failed,
        )?;
        let Some(upstreams) = &self.status.upstreams else {
            return Ok(());
        };
        let tokens = upstreams.iter().map(|upstream| {
            let is_valid = upstream.token == Token::Valid;
            ([("role", upstream.role.as_str())], is_valid.into())
        });
        text.gauges("upstream_token", "1: there is a token for it.", tokens)?;
        self.followed(text)?;
        self.links(text)
    }

    fn followed(&self, text: &mut Text<'_>) -> fmt::Result {
        let each = |value: fn(&Slot, &Following) -> Option<u64>| {
            let slots = self.status.slots.iter();
            slots.filter_map(move |slot| {
                let following = slot.following.as_ref()?;
                Some(([("slot", slot.slot.as_str())], value(slot, following)?))
            })
        };
        text.gauges(
            "upstream_live",
            "1: nothing can have changed unseen.",
            each(|_, following| Some(following.live.into())),
        )?;
        text.gauges(
            "upstream_fetched_age_seconds",
            "Since a document was last fetched, changed or not.",
            each(|_, following| following.fetched_s),
        )?;
        text.gauges(
            "slot_seed_superseded",
            "1: a good seed is not served, because what is served counts more.",
            each(|slot, _| Some(slot.superseded.is_some().into())),
        )?;
        text.counters(
            "slot_stale_refused",
            "Offers of the backup that were known to be older.",
            each(|slot, _| Some(slot.stale_refused)),
        )
    }

    fn links(&self, text: &mut Text<'_>) -> fmt::Result {
        let each = |value: fn(&Following, &Link) -> u64| {
            let slots = self.status.slots.iter();
            slots.flat_map(move |slot| {
                let following = slot.following.iter();
                following.flat_map(move |following| {
                    let links = following.links.iter();
                    links.map(move |link| {
                        let role = Role::as_str(link.role);
                        let labels = [("slot", slot.slot.as_str()), ("role", role)];
                        (labels, value(following, link))
                    })
                })
            })
        };
        text.gauges(
            "upstream_active",
            "1: this upstream is followed.",
            each(|following, link| (following.upstream == Some(link.role)).into()),
        )?;
        text.gauges(
            "upstream_open",
            "1: there is a change socket.",
            each(|_, link| (link.phase == LinkPhase::Open).into()),
        )?;
        text.counters(
            "upstream_dials",
            "Attempts to open a change socket.",
            each(|_, link| link.dials),
        )?;
        text.counters(
            "upstream_losses",
            "Change sockets that were lost.",
            each(|_, link| link.losses),
        )
    }
}
