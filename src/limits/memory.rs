//! Who holds how many bytes at worst.
//!
//! Owns the sum over all holders that `staffetta check` compares with `limits.memory`. It is made
//! of the bounds of [`Limits`], of sizes that were measured where no bound of ours says them (a TLS
//! session, a task), and of what the operator has: connections, slots, documents as they are now.
//!
//! The sum is for documents that stay about as large as they are; an upstream may send larger ones,
//! up to `document_bytes_max` each. In practice no two holders are at their bound together.

use super::{KIB, Limits, MIB};

/// A task of a connection, with what hangs on it.
const TASK_BYTES: usize = 2 * KIB;

/// A TLS record that is not sent yet, as the allocator gives it.
const RECORD_BYTES: usize = 8 * KIB;

/// A TLS session with a client.
const SESSION_BYTES: usize = 10 * KIB;

/// The same while it shakes hands.
const HANDSHAKE_BYTES: usize = 40 * KIB;

/// A connection to an upstream: task, TLS, and the chain of certificates that it keeps.
const UPSTREAM_BYTES: usize = 24 * KIB;

/// The end of a head and a whole read behind it: what waits to be decoded of an answer.
const ANSWER_BYTES: usize = 32 * KIB;

/// The usual file of authorities, which is read when the first connection wants TLS.
const AUTHORITIES_FILE_BYTES: usize = 256 * KIB;

/// What is kept of it, and of sessions to resume.
const AUTHORITIES_BYTES: usize = 192 * KIB;

/// A digest with its place in a queue.
const DIGEST_BYTES: usize = 40;

/// The session of a slot, its timers and problems.
const FOLLOWING_BYTES: usize = 4 * KIB;

/// What the memory sum depends on besides the bounds themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryLoad {
    /// Configured SDK connections.
    pub connections: usize,
    pub is_tls: bool,
    /// Some slot is the operator's.
    pub is_pushed_to: bool,
    /// Writes are routed between regions.
    pub is_routed: bool,
    /// The seed file.
    pub seed_bytes: usize,
    /// The JSON documents of all slots together.
    pub document_bytes: usize,
    /// The largest of them.
    pub largest_document_bytes: usize,
    pub slots: usize,
    /// None, the primary, or both.
    pub upstreams: usize,
    /// Slots that follow the writer of another region.
    pub replicas: usize,
    /// There is a reverse proxy.
    pub forwards: bool,
    /// Some of its destinations speak TLS.
    pub forwards_tls: bool,
}

impl Limits {
    /// Descriptors that a relay needs: of its SDK connections, of those beside them, of those to
    /// upstreams, and its own (standard streams, event queue, signals, journal, files, listeners;
    /// twice over). One that forwards has another connection for each, idle ones, and probes.
    pub fn descriptors(&self, load: &MemoryLoad) -> u64 {
        let own = 64;
        let (sockets, fetches) = self.upstream_connections(load);
        let beside = self.lobby_max + self.admin_connections_max + own;
        let forwarding = match load.forwards {
            true => load.connections + self.pool_max + self.probes_max,
            false => 0,
        };
        (load.connections + beside + sockets + fetches + forwarding) as u64
    }

    /// Who holds how many bytes at worst.
    pub fn memory_holders(&self, load: &MemoryLoad) -> [(&'static str, usize); 15] {
        // A connection either reads a head, with its buffer, or streams, with its queue and frame
        // (3 KiB).
        let plain_bytes = self.head_bytes_max + TASK_BYTES;
        let tls_bytes = if load.is_tls { SESSION_BYTES } else { 0 };
        let connection_bytes = plain_bytes + tls_bytes;
        let (handshakes, spares) = match load.is_tls {
            true => (self.handshakes_max, self.tls_spares_max),
            false => (0, 0),
        };
        // JSON, a copy on one line, flat form (never longer), gzip (half or less), of
        // every snapshot that slow clients keep alive.
        let forms = load.document_bytes.saturating_mul(7) / 2;
        let (sockets, fetches) = self.upstream_connections(load);
        // As it came, and unpacked.
        let fetched = load.largest_document_bytes.saturating_mul(2);
        [
            // The pages of a binary that ships (3.4 MB at most), idle loop, lanes and logger (0.4
            // MB), and almost a quarter for what the allocator holds back.
            ("program", 9 * MIB / 2),
            ("connections", load.connections * connection_bytes),
            ("documents", forms.saturating_mul(self.snapshots_alive_max)),
            // A new seed is held whole while the old documents are still served.
            ("seed", load.seed_bytes),
            // Each is one of the connections, has its task, and has read no head.
            (
                "handshakes",
                handshakes * (HANDSHAKE_BYTES + TASK_BYTES - connection_bytes),
            ),
            // Each has one of its own where its head lay.
            (
                "unsent records",
                spares * (self.tls_spare_records - 1) * RECORD_BYTES,
            ),
            (
                "request bodies",
                self.bodies_bytes_max + self.pushes_bytes(load),
            ),
            ("events", self.events_bytes(load)),
            // Remembered tokens, each with its place in two tables.
            ("tokens", self.tokens_max * (self.token_bytes_max + 128)),
            // There is no TLS on the admin listener.
            (
                "lobby and admin",
                self.lobby_max * connection_bytes + self.admin_connections_max * plain_bytes,
            ),
            (
                "change sockets",
                sockets * (UPSTREAM_BYTES + self.upstream_message_bytes_max),
            ),
            (
                "fetches",
                (UPSTREAM_BYTES + ANSWER_BYTES)
                    .saturating_add(fetched)
                    .saturating_mul(fetches),
            ),
            ("authorities", authorities_bytes(load)),
            // What each slot remembers and follows, and the record that is being written.
            (
                "state",
                load.slots * self.slot_bytes() + load.largest_document_bytes,
            ),
            ("forwarding", self.forwarding_bytes(load)),
        ]
    }

    /// The sum of [`Limits::memory_holders`], in bytes.
    pub fn memory_bytes_max(&self, load: &MemoryLoad) -> usize {
        let holders = self.memory_holders(load);
        let add = |sum: usize, (_, bytes): &(&str, usize)| sum.saturating_add(*bytes);
        holders.iter().fold(0, add)
    }

    /// Change sockets and fetches at once. A slot has two sockets while it goes back to the
    /// primary, and then two fetches as well: one that the backup was asked for, and the probe's.
    /// One that follows the writer of another region has one socket, and before a switch a fetch
    /// beside the one that its socket calls for.
    fn upstream_connections(&self, load: &MemoryLoad) -> (usize, usize) {
        let fetches = load.slots.min(self.fetches_max);
        let (sockets, fetches) = (load.slots * load.upstreams, fetches * load.upstreams);
        (
            sockets + load.replicas,
            fetches + 2 * load.replicas.min(self.fetches_max),
        )
    }

    /// The pushes that wait, one in pieces, and its record; between regions, those that are held.
    fn pushes_bytes(&self, load: &MemoryLoad) -> usize {
        let routed = match load.is_routed {
            // What was judged of each lies beside its body until it is answered; one is on its way
            // to a peer or into the store. Answers of peers, the record and its copies.
            true => {
                let region = self.region;
                self.pushes_bytes_max
                    + self.push_bytes_max
                    + region.parked_bytes_max
                    + 4 * region.record_bytes_max
                    + 2 * region.status_bytes_max
            }
            false => 0,
        };
        match load.is_pushed_to {
            true => self.pushes_bytes_max + 2 * self.push_bytes_max + routed,
            false => routed,
        }
    }

    /// Without an upstream or another region, reports are only counted.
    fn events_bytes(&self, load: &MemoryLoad) -> usize {
        if load.upstreams + load.replicas == 0 {
            return 0;
        }
        // What waits, its text while it is written down; a window of the spool, whose entries take
        // up to five times their text, and the body on its way.
        2 * self.events_bytes_max + 6 * self.spool_window_bytes + self.report_bytes_max
    }

    /// A forwarded request holds one read of its answer, or its head, and a task; what it holds of
    /// its content lies where its head lay. A TLS session with the destination is beside it.
    fn forwarding_bytes(&self, load: &MemoryLoad) -> usize {
        if !load.forwards {
            return 0;
        }
        let request_bytes = self.answer_head_bytes_max + 4 * KIB;
        let session_bytes = if load.forwards_tls {
            UPSTREAM_BYTES
        } else {
            KIB
        };
        load.connections * request_bytes + (load.connections + self.pool_max) * session_bytes
    }

    fn slot_bytes(&self) -> usize {
        let digests = self.history_digests_max + self.history_seeds_max;
        digests * DIGEST_BYTES + FOLLOWING_BYTES
    }
}

/// Both upstreams and the peers may have authorities of their own; they are read one after the
/// other.
fn authorities_bytes(load: &MemoryLoad) -> usize {
    match load.upstreams + load.replicas.min(1) {
        0 => 0,
        upstreams => upstreams * AUTHORITIES_BYTES + AUTHORITIES_FILE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits::PRODUCTION;

    /// The demo with as many clients as there may be.
    fn demo(upstreams: usize) -> MemoryLoad {
        MemoryLoad {
            connections: LIMITS.connections_max,
            is_tls: true,
            seed_bytes: 52 * KIB,
            document_bytes: 52 * KIB,
            largest_document_bytes: 14 * KIB,
            slots: 4,
            upstreams,
            ..MemoryLoad::default()
        }
    }

    #[test]
    fn the_defaults_fit_into_the_default_memory() {
        for upstreams in 0..=2 {
            let sum = LIMITS.memory_bytes_max(&demo(upstreams));
            assert!(sum <= LIMITS.memory_bytes_default, "{upstreams}: {sum}");
        }
    }

    #[test]
    fn a_replica_holds_a_socket_and_two_fetches() {
        let of = |load: &MemoryLoad, wanted| {
            let holders = LIMITS.memory_holders(load);
            let found = holders.into_iter().find(|(holder, _)| *holder == wanted);
            found.map(|(_, bytes)| bytes)
        };
        let region = MemoryLoad {
            replicas: 4,
            ..demo(0)
        };
        for holder in ["change sockets", "events", "authorities"] {
            assert_eq!(of(&region, holder), of(&demo(1), holder), "{holder}");
        }
        assert_eq!(of(&region, "fetches"), of(&demo(2), "fetches"));
    }

    #[test]
    fn fetches_are_bounded_however_many_slots_there_are() {
        let of = |slots| {
            let load = MemoryLoad { slots, ..demo(2) };
            let holders = LIMITS.memory_holders(&load);
            let fetches = holders.iter().find(|(holder, _)| *holder == "fetches");
            fetches.map(|(_, bytes)| *bytes)
        };
        assert_eq!(of(LIMITS.slots_max), of(LIMITS.fetches_max));
        assert!(of(LIMITS.fetches_max) > of(1));
    }

    #[test]
    fn an_isolated_site_pays_for_no_upstream() {
        let holders = LIMITS.memory_holders(&demo(0));
        for holder in ["events", "change sockets", "fetches", "authorities"] {
            assert!(holders.contains(&(holder, 0)), "{holder}");
        }
    }

    #[test]
    fn connections_to_upstreams_need_descriptors_too() {
        let needed = |slots, upstreams| {
            LIMITS.descriptors(&MemoryLoad {
                connections: 100,
                slots,
                upstreams,
                ..MemoryLoad::default()
            })
        };
        assert_eq!(needed(4, 0), 244);
        assert_eq!(needed(4, 2), 244 + 2 * (4 + 4));
        let most = LIMITS.slots_max + LIMITS.fetches_max;
        assert_eq!(needed(LIMITS.slots_max, 1), 244 + most as u64);
    }

    #[test]
    fn no_sum_overflows() {
        let load = MemoryLoad {
            document_bytes: usize::MAX,
            largest_document_bytes: usize::MAX / 2,
            ..demo(2)
        };
        assert_eq!(LIMITS.memory_bytes_max(&load), usize::MAX);
    }
}
