//! Every bound and deadline of the relay, each with its reason.
//!
//! Nothing in the relay grows, waits or repeats without a number from this page. Tests take the
//! struct and shorten what they wait for; the production values are asserted on their own, below.
//!
//! The worst case of memory is the sum in [`Limits::memory_bytes_max`] (see `memory`);
//! `staffetta check` prints it against the configured `limits.memory`.

mod memory;
mod region;

use crate::time::Duration;

pub use memory::MemoryLoad;
pub use region::Region;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The content of one TLS record. With its frame of at most 29 bytes, and 16 of the allocator that
/// gives powers of two, it takes 8 KiB.
///
/// Any session may hold one unsent. That is as much as a head: the memory sum counts one or the
/// other for each connection.
pub const TLS_RECORD_BYTES: usize = 8 * KIB - 16 - 29;

/// All bounds. Bytes unless the name says otherwise; the name's last word is the unit.
#[derive(Clone, Debug)]
pub struct Limits {
    // Configuration and documents.
    /// Config file. A hundred slots and keys take 20 KiB.
    pub config_bytes_max: usize,
    /// Slots per relay: each costs a snapshot and, later, an upstream session.
    pub slots_max: usize,
    /// Client keys per relay: an unknown key is compared with every one.
    pub keys_max: usize,
    /// A credential as it arrives: our own token is under 400 bytes, IBM's are about 1,200.
    pub credential_bytes_max: usize,
    /// Seed file. Held whole while it is read, and dropped afterwards.
    pub seed_bytes_max: usize,
    /// One slot's document: the size that an operator may push, and that an SDK still reads at
    /// once.
    pub document_bytes_max: usize,
    /// Nesting of a JSON document. IBM's documents nest 9 deep; JSON-valued flags add their own.
    pub json_depth_max: usize,
    /// Features, properties or segments of one document.
    pub items_max: usize,
    /// Digests of adopted content that a slot remembers, to know a backup's step back for one: a
    /// month of two changes a day.
    pub history_digests_max: usize,
    /// Digests of seeds that a slot remembers, to know a stick that was used before.
    pub history_seeds_max: usize,

    // Connections.
    /// SDK connections served at once, unless the config says otherwise.
    pub connections_max: usize,
    /// Connections over the limit that are still told 503 rather than left to guess.
    pub lobby_max: usize,
    /// Admin connections at once: a person, a scraper and a monitor, twice over.
    pub admin_connections_max: usize,
    /// TLS handshakes in flight: each costs about 40 KiB and 1 ms of the only thread.
    pub handshakes_max: usize,
    /// TLS sessions that hold a whole document unsent at once: the one that is written to, and
    /// others whose network is slow. More of them get it in pieces.
    pub tls_spares_max: usize,
    /// Records that such a session may hold: a document of the usual 20 KB with its event around
    /// it.
    pub tls_spare_records: usize,
    /// Backlog of a listening socket; a reconnecting fleet arrives in one second.
    pub listen_backlog: i32,
    /// After `accept` failed for want of descriptors: long enough not to spin, short enough to miss
    /// nothing.
    pub accept_pause: Duration,

    // One request.
    /// Request line and headers. Browsers send 1 KiB, IBM tokens add 1.5 KiB.
    pub head_bytes_max: usize,
    /// Header fields of one request.
    pub headers_max: usize,
    /// Chunk-size line with its extension.
    pub chunk_line_bytes_max: usize,
    /// Request body that is kept: a Rust SDK sends all usage of ten minutes in one.
    pub body_bytes_max: usize,
    /// Request bodies that are being read at once, together: four of the longest.
    pub bodies_bytes_max: usize,
    /// Request body that is read and thrown away before the connection is given up.
    pub body_drain_bytes_max: usize,
    /// From the first byte of a request to the end of its head; also the TLS handshake.
    pub head_timeout: Duration,
    /// From the end of the head to the end of the body.
    pub body_timeout: Duration,
    /// Idle keep-alive. SDKs poll and post within 90 s on one connection; a proxy's usual 60 s
    /// would cut them.
    pub idle_timeout: Duration,

    // Streams.
    /// A client whose socket took not one byte for this long is reset.
    pub stall_timeout: Duration,
    /// `test message` and the SSE comment. Rust SDKs wait 65 s, Node's and Ruby's 120 s.
    pub heartbeat_interval: Duration,
    /// Snapshots of one slot alive at once: the newest and those still being written to slow
    /// clients.
    pub snapshots_alive_max: usize,
    /// A WebSocket that opens within this of a change is told of it: Node fetches, waits 2 s, then
    /// opens.
    pub change_grace: Duration,
    /// A WebSocket message from a client. SDKs send none at all.
    pub websocket_message_bytes_max: usize,
    /// After our close frame, how long the peer may take to answer it.
    pub close_timeout: Duration,
    /// Unsent bytes that the kernel keeps for one socket (`TCP_NOTSENT_LOWAT`).
    pub socket_notsent_bytes: u32,
    /// Clients written to in one go before other tasks get their turn.
    pub fanout_batch: usize,
    /// The base of the `retry:` that SSE clients are told; each gets up to twice this.
    pub sse_retry: Duration,

    /// Documents up to this are packed when a client first asks: 3 ms here, 20 ms on a small core.
    pub packed_on_loop_bytes_max: usize,

    // Events from clients.
    /// Usage and analytics that wait in memory: a second of a thousand clients with a disk, and
    /// some hundred sums without one.
    pub events_bytes_max: usize,
    /// What a compressed request body may grow to.
    pub inflated_bytes_max: usize,
    /// What stands around the entries of a report: two ids and a type take 100 bytes.
    pub report_envelope_bytes_max: usize,
    /// One entry of a report. SDKs' are under 400 bytes; an experiment's may carry metrics.
    pub report_entry_bytes_max: usize,
    /// Entries in one POST to the upstream: the most that the service accepts.
    pub report_entries_max: usize,
    /// And bytes, a single larger entry left aside.
    pub report_bytes_max: usize,
    /// After the first entry came, how long more are waited for, up to a fifth more or less.
    pub report_delay: Duration,
    /// Once all has been delivered, the least time until it begins again: API calls are billed,
    /// and a busy fleet would fill a POST for each slot every second.
    pub report_pause: Duration,
    /// After the upstream did not take a report: first this long, then twice as long each time...
    pub report_retry: Duration,
    /// ...and never longer than this.
    pub report_retry_max: Duration,
    /// The same where it does not take our credentials: nothing changes there by itself.
    pub report_denied_retry: Duration,
    pub report_denied_retry_max: Duration,
    /// What a second of power may cost: how long events wait in memory before they are on disk.
    pub spool_delay: Duration,
    /// One file of the spool, as long as a quarter of the spool at most; the oldest goes whole.
    pub spool_segment_bytes: usize,
    /// What is read of the spool at one time, summed again and delivered.
    pub spool_window_bytes: usize,
    /// After the disk refused: how long memory has to do.
    pub spool_retry: Duration,
    /// How long a client whose report is larger than memory is made to wait for a slow disk,
    /// before the oldest entries pay for it.
    pub spool_patience: Duration,

    // Access.
    /// Verified tokens remembered, so that a signature is checked once and not per request.
    pub tokens_max: usize,
    /// Wrong keys on the token path within `wrong_keys_window` before answers become 429.
    pub wrong_keys_max: u32,
    pub wrong_keys_window: Duration,
    /// What a client without data is told to wait (`Retry-After`).
    pub retry_after: Duration,

    // Upstream.
    /// Relays that content may come through: the service, one at the site, one for each hall, and
    /// room to spare. A ring is found by the relay's own name; this ends one whose names change.
    pub path_nodes_max: usize,

    // Housekeeping.
    /// How often the seed file is looked at.
    pub seed_interval: Duration,
    /// From SIGTERM to exit; half of systemd's own patience in our unit.
    pub drain_timeout: Duration,
    /// Jobs that wait for the disk.
    pub disk_jobs_max: usize,
    /// After a write to the state folder failed: a full disk may be cleared at any moment.
    pub save_retry_first: Duration,
    /// ...doubled up to this: a dead card is asked 288 times a day.
    pub save_retry_max: Duration,
    /// Longest time that an admin command waits for the relay's answer.
    pub admin_timeout: Duration,
    /// ...and `staffetta reload` for its verdict: a slow board takes half a minute to judge a large
    /// seed. systemd waits longer: as for a start, `TimeoutStartSec` of the unit.
    pub reload_timeout: Duration,
    /// One of our own tokens: about 300 bytes with a short key id, this with the longest. Anything
    /// longer is no token of ours, so this bounds what `tokens_max` of them take.
    pub token_bytes_max: usize,

    // What an operator may ask for.
    /// Most that `limits.connections` can be set to: more than any gateway has ports for.
    pub connections_ceiling: usize,
    /// `limits.memory` where the config says nothing: what the unit's `MemoryMax` allows.
    pub memory_bytes_default: usize,
    /// Least that `limits.memory` can be set to: the relay with one small slot and no client.
    pub memory_bytes_min: usize,
    /// Addresses of one listener: every interface of a gateway by name, with room to spare.
    pub listeners_max: usize,
    /// `upstream.retry_primary_s` where the config says nothing: IBM's own relay tries as often.
    pub retry_primary_default: Duration,
    /// Least: a probe is a handshake, an upgrade and a whole document.
    pub retry_primary_min: Duration,
    /// Most: an hour on a backup that may be behind.
    pub retry_primary_max: Duration,
    /// `start_timeout_s` where the config says nothing: a modem that dials in takes a minute.
    pub start_timeout_default: Duration,
    /// Most: longer than any network takes to come up.
    pub start_timeout_max: Duration,
    /// `events.spool_bytes` where the config says nothing: a week of a quiet site's reports.
    pub spool_bytes_default: usize,
    /// Least: one report of the longest.
    pub spool_bytes_min: usize,
    /// Most: what a card of a gateway can spare.
    pub spool_bytes_ceiling: usize,

    // Sockets and log.
    /// A TCP connection without traffic is probed after this long...
    pub keepalive_idle: Duration,
    /// ...this often...
    pub keepalive_interval: Duration,
    /// ...this many times, before the kernel calls it dead.
    pub keepalive_probes: u32,
    /// A TCP peer that acknowledges nothing, or keeps its window shut, for this long is dead to the
    /// kernel (`TCP_USER_TIMEOUT`). Longer than `stall_timeout`: the relay shall see it first.
    pub unacknowledged_timeout: Duration,
    /// One log line of each cause that the outside can repeat at will.
    pub log_interval: Duration,

    // Following an upstream.
    /// One dial, from the name to the 101: a slow cellular link needs six round trips and a token.
    /// Not longer than `probe_interval`, or a dial that hangs would delay the next probe.
    pub session_dial_timeout: Duration,
    /// One fetch. Only for what `net` forgot: its own deadlines are shorter.
    pub session_fetch_timeout: Duration,
    /// With nothing to follow: the wait before the next dial at first...
    pub backoff_first: Duration,
    /// ...and at most. Both upstreams share one back-off, so that a dead day costs 300 dials.
    pub backoff_cap: Duration,
    /// A link that held this long was no flapping: waits start from the first again.
    pub link_stable: Duration,
    /// After 401, 403 or 404 the same upstream is asked again after this at first...
    pub denied_first: Duration,
    /// ...and this at most: only a person can mend it.
    pub denied_cap: Duration,
    /// While the backup serves: from one probe of the primary to the next (`retry_primary_s`).
    pub probe_interval: Duration,
    /// The first probe of a slot comes up to this much later, so that slots do not return as one.
    pub stagger_max: Duration,
    /// A link without traffic is pinged after this...
    pub ping_after: Duration,
    /// ...and lost after this.
    pub silence_timeout: Duration,
    /// A link without `test message` is lost after this. The service sends it every 30 to 60 s.
    pub heartbeat_timeout: Duration,
    /// A fetch that failed is tried again after this at first...
    pub refetch_first: Duration,
    /// ...and this at most, while there is a link.
    pub refetch_cap: Duration,
    /// From the start of one fetch to the next, however many changes are announced.
    pub refetch_spacing: Duration,
    /// A fetch that nobody asked for, in case an announcement was lost; also the slowest retry.
    pub refresh_interval: Duration,
    /// Longest `Retry-After` that is believed.
    pub retry_after_max: Duration,
    /// So many losses of the primary...
    pub damping_losses: usize,
    /// ...within this are flapping,
    pub damping_window: Duration,
    /// and then the return waits up to this.
    pub damping_wait_max: Duration,

    // Pushes.
    /// The document that is pushed, compressed or not: the longest that a slot serves.
    pub push_bytes_max: usize,
    /// Bodies of all pushes that are being read or wait for their turn: one of the longest, or a
    /// few hundred of those that there are.
    pub pushes_bytes_max: usize,
    /// Pushes that are being taken or wait, one after the other: half of the admin connections, so
    /// that somebody who waits keeps nobody from looking.
    pub pushes_max: usize,

    // Service manager.
    /// How often its status is looked at where no watchdog asks for more.
    pub status_interval: Duration,

    // Commands.
    /// What a command reads of the relay's answer: 256 slots with everything wrong take 300 KiB.
    pub admin_answer_bytes_max: usize,

    // Upstream.
    /// Status line and header fields of an answer: a gateway in front of the service adds cookies
    /// and policies by the kilobyte.
    pub answer_head_bytes_max: usize,
    /// Interim answers (1xx) before the one that counts.
    pub interim_answers_max: usize,
    /// From the name of an upstream to the end of the TLS handshake, its proxy included. A modem
    /// with 800 ms of delay takes six round trips for it.
    pub upstream_connect_timeout: Duration,
    /// Without a byte while an answer is expected. A path that swallows large packets looks so.
    pub upstream_idle_timeout: Duration,
    /// One request from its name to the last byte of the answer: 400 KiB over 64 kbit/s take 50 s.
    pub upstream_total_timeout: Duration,
    /// A message of the upstream's change socket. It is a line of text at most, and each slot has a
    /// socket or two that may be in the middle of one.
    pub upstream_message_bytes_max: usize,
    /// An upstream connection that is silent for `keepalive_idle` is probed this often...
    pub upstream_keepalive_interval: Duration,
    /// ...this many times.
    pub upstream_keepalive_probes: u32,
    /// An upstream that acknowledges nothing for this long is dead to the kernel; before the
    /// session's own 60 s of silence are over.
    pub upstream_unacknowledged_timeout: Duration,
    /// Host names remembered: two upstreams, their IAMs and proxies make six.
    pub names_max: usize,
    /// Addresses of one name that are tried.
    pub addresses_max: usize,
    /// How long the addresses of a name are good for.
    pub name_fresh: Duration,
    /// After a name could not be resolved, how long it is not asked for again.
    pub name_failed: Duration,
    /// How long a connection waits for the resolver; what comes later is there for the next one.
    pub name_timeout: Duration,
    /// IAM's answer. A token takes 2 KiB.
    pub iam_answer_bytes_max: usize,
    /// An upstream's token is no longer used this long before it ends, as IBM's SDKs do.
    pub token_margin: Duration,
    /// After IAM gave no token, how long it is not asked again, as IBM's SDKs do. A token that is
    /// younger than this is not replaced because it was refused.
    pub token_retry: Duration,
    /// Longest life of a token that is believed.
    pub token_lifetime_max: Duration,
    /// A file of certificate authorities. The usual one of a system has 220 KiB.
    pub ca_file_bytes_max: usize,
    /// Upstream hosts whose TLS sessions are resumed: the two of each upstream.
    pub tls_hosts_max: usize,
    /// Documents on their way from one upstream at once. When it comes back after an outage, all
    /// slots want theirs: 256 of them, 16 at a time and 0.3 s each, are done in 5 s, which leaves
    /// the last probe 10 of its 15.
    pub fetches_max: usize,

    // Reverse proxy.
    /// Routes: each is tried for a request that no earlier one takes.
    pub routes_max: usize,
    /// Clusters, as many as routes can tell apart on a gateway.
    pub clusters_max: usize,
    /// Destinations of one cluster: a choice looks at each.
    pub destinations_max: usize,
    /// Entries of a list or of metadata within a route or a cluster.
    pub proxy_entries_max: usize,
    /// A cluster's `ActivityTimeout` where the config says nothing; YARP's own.
    pub activity_timeout: Duration,
    /// Health probes under way at once: each costs a connection and a deadline.
    pub probes_max: usize,
    /// Least interval between two probes of one destination: a typing error must not make a flood.
    pub probe_interval_min: Duration,
    /// How long a failed request counts against its destination; YARP's own.
    pub failure_window: Duration,
    /// From the name of a destination to the end of its TLS handshake, before another is tried:
    /// destinations are in the same building, and a client is waiting.
    pub destination_connect_timeout: Duration,
    /// Idle connections to one destination: a burst of requests leaves that many behind...
    pub pool_destination_max: usize,
    /// ...and to all of them.
    pub pool_max: usize,
    /// How long a connection to a destination may be idle. Node's servers close theirs after 5 s,
    /// and a request that crosses such an end is lost.
    pub pool_idle_timeout: Duration,
    /// After IAM was not reached, how long it is not asked again: enough for all slots that waited
    /// for that attempt to share it. Less than any probe or back-off, which pace the rest.
    pub token_unreached_retry: Duration,
    /// While a token that is good is held, how long a request waits for the next one. An IAM that
    /// hangs must not use up the time of a dial.
    pub token_refresh_timeout: Duration,
    /// Routing between regions. Apart, and by reference: whoever carries the limits along carries
    /// little.
    pub region: &'static Region,
}

const _: () = {
    let limits = &Limits::PRODUCTION;
    assert!(limits.tls_spare_records > 1 && TLS_RECORD_BYTES <= limits.head_bytes_max);
    assert!(limits.unacknowledged_timeout.as_secs() > limits.stall_timeout.as_secs());
    assert!(limits.name_timeout.as_secs() < limits.upstream_connect_timeout.as_secs());
    assert!(limits.upstream_connect_timeout.as_secs() < limits.upstream_total_timeout.as_secs());
    // A token and a document, each within its own time, before the session gives up.
    assert!(limits.session_fetch_timeout.as_secs() >= 2 * limits.upstream_total_timeout.as_secs());
    // A probe is not to find the door shut by the one before, nor the first try after an outage.
    assert!(limits.token_unreached_retry.as_millis() < limits.backoff_first.as_millis() / 2);
    assert!(limits.token_unreached_retry.as_secs() < limits.retry_primary_min.as_secs());
    assert!(limits.token_refresh_timeout.as_secs() < limits.session_dial_timeout.as_secs() / 2);
    // The ping has to be answered before its link is lost, and a probe over before the next.
    assert!(limits.ping_after.as_secs() * 2 <= limits.silence_timeout.as_secs());
    assert!(limits.session_dial_timeout.as_secs() <= limits.probe_interval.as_secs());
    assert!(limits.region.wait.as_secs() < limits.idle_timeout.as_secs());
};

impl Limits {
    /// The values that ship.
    pub const PRODUCTION: Limits = Limits {
        config_bytes_max: MIB,
        slots_max: 256,
        keys_max: 256,
        credential_bytes_max: 4 * KIB,
        seed_bytes_max: 16 * MIB,
        document_bytes_max: 4 * MIB,
        json_depth_max: 64,
        items_max: 10_000,
        history_digests_max: 64,
        history_seeds_max: 16,
        connections_max: 1024,
        lobby_max: 64,
        admin_connections_max: 16,
        handshakes_max: 32,
        tls_spares_max: 32,
        tls_spare_records: 3,
        listen_backlog: 4096,
        accept_pause: Duration::from_millis(50),
        head_bytes_max: 8 * KIB,
        headers_max: 64,
        chunk_line_bytes_max: 256,
        body_bytes_max: 256 * KIB,
        bodies_bytes_max: MIB,
        body_drain_bytes_max: MIB,
        head_timeout: Duration::from_secs(5),
        body_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(95),
        stall_timeout: Duration::from_secs(180),
        heartbeat_interval: Duration::from_secs(25),
        snapshots_alive_max: 4,
        change_grace: Duration::from_secs(30),
        websocket_message_bytes_max: 4 * KIB,
        close_timeout: Duration::from_secs(5),
        socket_notsent_bytes: 16 * KIB as u32,
        fanout_batch: 64,
        sse_retry: Duration::from_secs(2),
        packed_on_loop_bytes_max: 128 * KIB,
        events_bytes_max: 256 * KIB,
        inflated_bytes_max: MIB,
        report_envelope_bytes_max: KIB,
        report_entry_bytes_max: 16 * KIB,
        report_entries_max: 30,
        report_bytes_max: 32 * KIB,
        report_delay: Duration::from_secs(60),
        report_pause: Duration::from_secs(10),
        report_retry: Duration::from_secs(5),
        report_retry_max: Duration::from_secs(300),
        report_denied_retry: Duration::from_secs(60),
        report_denied_retry_max: Duration::from_secs(600),
        spool_delay: Duration::from_secs(1),
        spool_segment_bytes: 256 * KIB,
        spool_window_bytes: 32 * KIB,
        spool_retry: Duration::from_secs(60),
        spool_patience: Duration::from_secs(5),
        tokens_max: 1024,
        wrong_keys_max: 20,
        wrong_keys_window: Duration::from_secs(10),
        retry_after: Duration::from_secs(5),
        path_nodes_max: 8,
        seed_interval: Duration::from_secs(2),
        drain_timeout: Duration::from_secs(5),
        disk_jobs_max: 16,
        save_retry_first: Duration::from_secs(1),
        save_retry_max: Duration::from_secs(300),
        admin_timeout: Duration::from_secs(30),
        reload_timeout: Duration::from_secs(60),
        token_bytes_max: 640,
        connections_ceiling: 65_536,
        memory_bytes_default: 32 * MIB,
        memory_bytes_min: 6 * MIB,
        listeners_max: 16,
        retry_primary_default: Duration::from_secs(15),
        retry_primary_min: Duration::from_secs(5),
        retry_primary_max: Duration::from_secs(3600),
        start_timeout_default: Duration::from_secs(120),
        start_timeout_max: Duration::from_secs(3600),
        spool_bytes_default: 8 * MIB,
        spool_bytes_min: 256 * KIB,
        spool_bytes_ceiling: 1024 * MIB,
        keepalive_idle: Duration::from_secs(60),
        keepalive_interval: Duration::from_secs(15),
        keepalive_probes: 4,
        unacknowledged_timeout: Duration::from_secs(240),
        log_interval: Duration::from_secs(60),
        session_dial_timeout: Duration::from_secs(15),
        session_fetch_timeout: Duration::from_secs(240),
        backoff_first: Duration::from_secs(5),
        backoff_cap: Duration::from_secs(300),
        link_stable: Duration::from_secs(60),
        denied_first: Duration::from_secs(60),
        denied_cap: Duration::from_secs(600),
        probe_interval: Duration::from_secs(15),
        stagger_max: Duration::from_secs(5),
        ping_after: Duration::from_secs(30),
        silence_timeout: Duration::from_secs(60),
        heartbeat_timeout: Duration::from_secs(120),
        refetch_first: Duration::from_secs(1),
        refetch_cap: Duration::from_secs(60),
        refetch_spacing: Duration::from_millis(100),
        refresh_interval: Duration::from_secs(600),
        retry_after_max: Duration::from_secs(3600),
        damping_losses: 3,
        damping_window: Duration::from_secs(600),
        damping_wait_max: Duration::from_secs(60),
        push_bytes_max: 4 * MIB,
        pushes_bytes_max: 4 * MIB,
        pushes_max: 8,
        status_interval: Duration::from_secs(10),
        admin_answer_bytes_max: 4 * MIB,
        answer_head_bytes_max: 16 * KIB,
        interim_answers_max: 3,
        upstream_connect_timeout: Duration::from_secs(15),
        upstream_idle_timeout: Duration::from_secs(20),
        upstream_total_timeout: Duration::from_secs(120),
        upstream_message_bytes_max: 16 * KIB,
        upstream_keepalive_interval: Duration::from_secs(20),
        upstream_keepalive_probes: 3,
        upstream_unacknowledged_timeout: Duration::from_secs(45),
        names_max: 32,
        addresses_max: 6,
        name_fresh: Duration::from_secs(60),
        name_failed: Duration::from_secs(5),
        name_timeout: Duration::from_secs(6),
        iam_answer_bytes_max: 64 * KIB,
        token_margin: Duration::from_secs(10),
        token_retry: Duration::from_secs(60),
        token_lifetime_max: Duration::from_secs(86_400),
        ca_file_bytes_max: 2 * MIB,
        tls_hosts_max: 4,
        fetches_max: 16,
        routes_max: 256,
        clusters_max: 64,
        destinations_max: 64,
        proxy_entries_max: 64,
        activity_timeout: Duration::from_secs(100),
        probes_max: 16,
        probe_interval_min: Duration::from_secs(1),
        failure_window: Duration::from_secs(60),
        destination_connect_timeout: Duration::from_secs(5),
        pool_destination_max: 32,
        pool_max: 128,
        pool_idle_timeout: Duration::from_secs(4),
        token_unreached_retry: Duration::from_secs(2),
        token_refresh_timeout: Duration::from_secs(5),
        region: &Region::PRODUCTION,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::PRODUCTION
    }
}
