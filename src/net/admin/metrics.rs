//! The numbers of the relay for a scraper, in Prometheus' text format 0.0.4.
//!
//! Owns the names of the metrics, their help and their labels. The format is the older of the two
//! in use: every scraper takes it, whatever it asks for, so that nothing depends on `Accept`.
//!
//! A registry is made for each scrape and filled from a copy of the relay's numbers: nothing is
//! shared, nothing is counted twice, and what a scraper sees is one moment.
//!
//! Invariant: labels are slots of the configuration and words of our own enums. Nothing that a
//! client sends becomes a label, so nobody outside can make the number of series grow.

mod events;
mod proxy;
mod region;
mod upstream;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

use crate::model::Reject;
use crate::state::counters::Counters;
use crate::state::deadlines::Reason;
use crate::wire::status::{Phase, Served, Slot, Status};

/// What [`Scrape::encode`] gives is sent as.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// In front of every name.
const PREFIX: &str = "staffetta";

/// One moment of the relay.
#[derive(Debug)]
pub struct Scrape {
    pub status: Status,
    pub counters: Counters,
    /// Subscribers that were dropped because they were too far behind.
    pub evictions: u64,
    /// When the process started, in seconds since 1970; wrong for as long as the clock is.
    pub started_s: u64,
}

impl Scrape {
    /// The whole text.
    ///
    /// Bounded by the number of slots.
    pub fn encode(self) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // A string takes everything, and the collector reports no error of its own.
        let _ = prometheus_text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut text = Text(encoder);
        self.process(&mut text)?;
        self.slots(&mut text)?;
        self.clients(&mut text)?;
        self.connections(&mut text)?;
        self.requests(&mut text)?;
        self.seed(&mut text)?;
        self.state_folder(&mut text)?;
        self.upstream(&mut text)?;
        proxy::write(&self.status.clusters, &mut text)?;
        region::write(self.status.region.as_ref(), &mut text)?;
        self.events(&mut text)
    }
}

impl Scrape {
    fn process(&self, text: &mut Text<'_>) -> fmt::Result {
        let (status, counters) = (&self.status, &self.counters);
        let version = [([("version", status.version.as_str())], 1)];
        text.gauges("build_info", "Which program this is.", version)?;
        text.gauge(
            "start_time_seconds",
            "When the process started, since 1970, by the clock as it is now.",
            self.started_s,
        )?;
        text.gauge(
            "uptime_seconds",
            "Since the process started.",
            status.uptime_s,
        )?;
        text.gauge("ready", "1: every slot is served.", status.ready.into())?;
        let draining = status.state == Phase::Draining;
        text.gauge(
            "draining",
            "1: the relay is shutting down.",
            draining.into(),
        )?;
        text.gauge(
            "problems",
            "Problems that stand; the status has them in words.",
            status.problems.len() as u64,
        )?;
        text.gauge("tls", "1: TLS is spoken.", status.tls.into())?;
        text.gauge(
            "client_keys",
            "Configured client keys.",
            status.keys.configured as u64,
        )?;
        text.gauge(
            "client_keys_unreadable",
            "Client keys that could not be read.",
            status.keys.unreadable as u64,
        )?;
        text.counter("reloads", "Reloads that were applied.", counters.reloads)?;
        text.counter(
            "reloads_refused",
            "Reloads that were refused.",
            counters.reloads_refused,
        )
    }

    fn slots(&self, text: &mut Text<'_>) -> fmt::Result {
        let all = |value: fn(&Slot) -> u64| {
            let slots = self.status.slots.iter();
            slots.map(move |slot| ([("slot", slot.slot.as_str())], value(slot)))
        };
        let served = |value: fn(&Served) -> u64| {
            let slots = self.status.slots.iter();
            slots.filter_map(move |slot| {
                let served = slot.serves.as_ref()?;
                Some(([("slot", slot.slot.as_str())], value(served)))
            })
        };
        text.gauges(
            "slot_has_snapshot",
            "1: the slot has something to serve.",
            all(|slot| slot.serves.is_some().into()),
        )?;
        text.gauges(
            "slot_problem",
            "1: the newest offer for the slot was refused.",
            all(|slot| slot.last_error.is_some().into()),
        )?;
        text.gauges(
            "slot_version",
            "Counts what the slot has served since the start.",
            served(|served| served.version),
        )?;
        text.gauges(
            "slot_age_seconds",
            "Since the content was adopted.",
            served(|served| served.age_s),
        )?;
        text.gauges(
            "slot_confirmed_age_seconds",
            "Since a source last held the same content.",
            served(|served| served.confirmed_s),
        )?;
        text.gauges(
            "slot_bytes",
            "Size of the document.",
            served(|served| served.bytes),
        )?;
        text.counter(
            "publications",
            "Snapshots handed to subscribers.",
            self.counters.publications,
        )?;
        text.counter(
            "pushes",
            "Documents that an operator pushed and that are served.",
            self.counters.pushes,
        )?;
        text.counter(
            "pushes_refused",
            "Requests for an operator's slot that were refused.",
            self.counters.pushes_refused,
        )
    }

    fn clients(&self, text: &mut Text<'_>) -> fmt::Result {
        let clients = self.status.slots.iter().flat_map(|slot| {
            let kinds = [
                ("websocket", slot.clients.websocket),
                ("sse", slot.clients.sse),
                ("sse_events_only", slot.clients.sse_events_only),
                ("fetch", slot.clients.fetch),
            ];
            kinds.map(|(kind, count)| {
                let labels = [("slot", slot.slot.as_str()), ("kind", kind)];
                (labels, u64::from(count))
            })
        });
        text.gauges("clients", "Clients connected to a slot.", clients)?;
        text.counter("streams", "Streams opened.", self.counters.streams)?;
        text.counter(
            "evictions",
            "Clients dropped because they were too far behind.",
            self.evictions,
        )
    }

    fn connections(&self, text: &mut Text<'_>) -> fmt::Result {
        let (open, counters) = (&self.status.connections, &self.counters);
        let doors = [
            ([("door", "sdk")], open.sdk as u64),
            ([("door", "lobby")], open.lobby as u64),
            ([("door", "admin")], open.admin as u64),
        ];
        text.gauges("connections_open", "Open connections.", doors)?;
        text.gauge(
            "connections_limit",
            "Most SDK connections at once.",
            open.limit as u64,
        )?;
        let expiries = counters
            .expiries()
            .map(|(reason, count)| ([("reason", Reason::as_str(reason))], count));
        text.counters("expiries", "Connections ended by a deadline.", expiries)?;
        text.totals([
            ("connections", "Connections taken in.", counters.connections),
            (
                "connections_lobby",
                "Connections over the limit, told so.",
                counters.connections_lobby,
            ),
            (
                "connections_dropped",
                "Connections over every limit, closed unheard.",
                counters.connections_dropped,
            ),
            (
                "accept_failures",
                "Connections that could not be accepted.",
                counters.accept_failures,
            ),
            ("handshakes", "TLS handshakes.", counters.handshakes),
            (
                "handshakes_failed",
                "TLS handshakes that failed.",
                counters.handshakes_failed,
            ),
            (
                "handshakes_refused",
                "TLS where no certificate is loaded.",
                counters.handshakes_refused,
            ),
            ("tunnels", "CONNECT tunnels opened.", counters.tunnels),
        ])
    }

    fn requests(&self, text: &mut Text<'_>) -> fmt::Result {
        let counters = &self.counters;
        let refusals = counters
            .refusals()
            .map(|(reject, count)| ([("reason", Reject::as_str(reject))], count));
        text.counters("refusals", "Requests turned away.", refusals)?;
        text.totals([
            (
                "requests",
                "Requests whose head was read.",
                counters.requests,
            ),
            (
                "malformed",
                "Requests that could not be read.",
                counters.malformed,
            ),
            (
                "documents",
                "Config answers with a document.",
                counters.documents,
            ),
            (
                "documents_not_modified",
                "Config answers without one (304).",
                counters.documents_not_modified,
            ),
            ("tokens", "Tokens issued.", counters.tokens),
        ])
    }

    fn seed(&self, text: &mut Text<'_>) -> fmt::Result {
        let counters = &self.counters;
        text.counter("seeds_read", "Seed files read.", counters.seeds_read)?;
        text.counter(
            "seeds_refused",
            "Seed files unusable as a whole.",
            counters.seeds_refused,
        )?;
        let Some(seed) = &self.status.seed else {
            return Ok(());
        };
        text.gauge(
            "seed_problem",
            "1: the newest seed file is not used as a whole.",
            seed.problem.is_some().into(),
        )?;
        text.gauge("seed_bytes", "Size of the seed file.", seed.bytes)?;
        match seed.read_s {
            Some(read_s) => text.gauge(
                "seed_age_seconds",
                "Since a usable seed file was last read.",
                read_s,
            ),
            None => Ok(()),
        }
    }

    fn state_folder(&self, text: &mut Text<'_>) -> fmt::Result {
        let counters = &self.counters;
        text.counter(
            "state_saves",
            "Slots written to the state folder.",
            counters.state_saves,
        )?;
        text.counter(
            "state_saves_failed",
            "Writes to the state folder that failed.",
            counters.state_saves_failed,
        )?;
        let Some(state_dir) = &self.status.state_dir else {
            return Ok(());
        };
        text.gauge(
            "state_writable",
            "1: what is served is kept in the state folder.",
            state_dir.problem.is_none().into(),
        )?;
        text.gauge(
            "state_waiting_slots",
            "Slots whose newest content is not written yet.",
            state_dir.waiting as u64,
        )
    }
}

/// Writes families of metrics, each with its help and type.
struct Text<'a>(DescriptorEncoder<'a>);

impl Text<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let encoder = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(encoder)
    }

    /// Counters without labels: name, help and value of each.
    fn totals<'c>(
        &mut self,
        counters: impl IntoIterator<Item = (&'c str, &'c str, u64)>,
    ) -> fmt::Result {
        let mut counters = counters.into_iter();
        counters.try_for_each(|(name, help, value)| self.counter(name, help, value))
    }

    fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            let sample = family.encode_family(&labels)?;
            ConstCounter::new(value).encode(sample)?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut encoder = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        encoder.encode_gauge(&value)
    }

    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
