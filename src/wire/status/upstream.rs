//! Whom the relay follows, as it is told to people.
//!
//! Owns the two parts of the document that an isolated site has not: what is known of each upstream
//! as a whole, and how far each slot is with it. A slot that follows the backup is served as well
//! as any other, and yet it is a problem: something is broken that nobody else will mend.
//!
//! Outages come to all slots at once. So slots that have the same to say about themselves say it in
//! one line together, and the number of problems is near the number of causes.

use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

use super::{Slot, age_in_words};
use crate::model::Role;

/// The service, or another relay, as it was last found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstream {
    pub role: Role,
    /// As it is configured; a URL has no secret in it.
    pub url: String,
    pub guid: String,
    /// Whether there is an API key to ask with.
    pub key_readable: bool,
    pub token: Token,
    /// Why IAM gave none the last time; null while one is valid.
    pub token_problem: Option<String>,
}

/// The relay's own token for an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Token {
    /// Not asked for yet, or not to be had for now.
    None,
    Valid,
    /// IAM does not take the API key: a person has to mend that.
    Refused,
}

/// How far a slot is with the upstreams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Following {
    /// The node that is primary for the slot, and followed in the place of the primary upstream;
    /// absent where that is followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Whose changes are heard; null while nobody's are.
    pub upstream: Option<Role>,
    /// Seconds that this has been so.
    pub since_s: u64,
    /// Nothing can have changed unseen.
    pub live: bool,
    /// Seconds since a document was last fetched, from whomever; null while none was.
    pub fetched_s: Option<u64>,
    /// Null while there is no need for one, and while one is under way.
    pub next_dial: Option<NextDial>,
    /// The primary's, and the backup's if there is one.
    pub links: Vec<Link>,
}

/// The next attempt to open a change socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextDial {
    pub role: Role,
    /// In so many seconds, if nothing else happens.
    pub in_s: u64,
}

/// The change socket of a slot at one upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub role: Role,
    pub phase: LinkPhase,
    /// Dials since the start.
    pub dials: u64,
    /// Open links that were lost since the start.
    pub losses: u64,
    /// What last went wrong; null if all has gone right since.
    pub last_problem: Option<String>,
    /// Seconds since it first did.
    pub last_problem_s: Option<u64>,
    /// It went wrong because a certificate is of the future by this machine's clock.
    pub clock_in_doubt: bool,
}

/// How far a change socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkPhase {
    Down,
    Dialing,
    Open,
}

impl Upstream {
    /// Short enough for a table: `https://eu-de.apprapp.cloud.ibm.com, token valid`.
    pub fn in_words(&self) -> String {
        let token = match (self.key_readable, self.token) {
            (false, _) => "API key unreadable",
            (true, Token::None) => "no token",
            (true, Token::Valid) => "token valid",
            (true, Token::Refused) => "API key refused",
        };
        format!("{}, {token}", self.url)
    }

    pub(super) fn complaint(&self) -> Option<String> {
        if self.token != Token::Refused {
            return None;
        }
        let problem = self.token_problem.as_deref().unwrap_or("IAM says no more");
        let role = self.role.as_str();
        Some(format!("the API key of the {role} is refused: {problem}"))
    }
}

impl Following {
    /// Short enough for a table: `primary, live`, `backup for 12 min, live`.
    pub fn in_words(&self) -> String {
        let age = age_in_words(self.since_s);
        let live = match self.live {
            true => "live",
            false => "no document yet",
        };
        match self.upstream {
            Some(Role::Primary) => format!("{}, {live}", self.name(Role::Primary)),
            Some(Role::Backup) => format!("backup for {age}, {live}"),
            None => {
                let mut words = format!("nobody for {age}");
                if let Some(NextDial { role, in_s }) = self.next_dial {
                    let (name, wait) = (self.name(role), age_in_words(in_s));
                    // A string takes everything.
                    let _ = write!(words, ", {name} in {wait}");
                }
                words
            }
        }
    }

    /// Who is meant by a role.
    fn name(&self, role: Role) -> String {
        match &self.writer {
            Some(node) => format!("writer {node}"),
            None => role.as_str().to_owned(),
        }
    }

    /// Whether it is worth a line among the problems.
    pub(super) fn is_problem(&self) -> bool {
        self.complaint().is_some()
    }

    fn link(&self, role: Role) -> Option<&Link> {
        self.links.iter().find(|link| link.role == role)
    }

    fn complaint(&self) -> Option<Complaint> {
        let problem = |role| self.link(role)?.last_problem.as_deref();
        let named = |role| Some(format!("{}: {}", self.name(role), problem(role)?));
        let causes: Vec<String> = Role::ALL.into_iter().filter_map(named).collect();
        match self.upstream {
            Some(role) if self.live || problem(role).is_none() => {
                (role == Role::Backup).then(|| Complaint {
                    followed: Some(self.name(role)),
                    since_s: self.since_s,
                    causes: named(Role::Primary).unwrap_or_default(),
                    is_fetching: false,
                })
            }
            Some(role) => Some(Complaint {
                followed: Some(self.name(role)),
                since_s: self.link(role)?.last_problem_s?,
                causes: problem(role)?.to_owned(),
                is_fetching: true,
            }),
            // The first attempt is no problem yet.
            None if causes.is_empty() => None,
            None => Some(Complaint {
                followed: None,
                since_s: self.since_s,
                causes: causes.join("; "),
                is_fetching: false,
            }),
        }
    }
}

/// What a slot has to say about whom it follows.
struct Complaint {
    followed: Option<String>,
    since_s: u64,
    causes: String,
    /// The link is there, and no document comes.
    is_fetching: bool,
}

impl Complaint {
    fn is_as(&self, other: &Complaint) -> bool {
        self.followed == other.followed
            && self.is_fetching == other.is_fetching
            && self.causes == other.causes
    }

    fn line(&self, slots: &str) -> String {
        let (age, mut causes) = (age_in_words(self.since_s), self.causes.as_str());
        if causes.is_empty() {
            causes = "nothing is known of the primary";
        }
        match (&self.followed, self.is_fetching) {
            (Some(name), true) => {
                format!("no document of the {name} for {age}, {slots} may be old: {causes}")
            }
            (Some(name), false) => {
                format!("the {name} has been followed for {age} by {slots}: {causes}")
            }
            (None, _) => format!(
                "no upstream has been followed for {age} by {slots}, what is served stays: {causes}"
            ),
        }
    }
}

/// What is wrong with the slots' upstreams, one line for all slots that say the same, the longest
/// age of theirs in it.
///
/// Bounded by the number of slots, times that of different complaints.
pub(super) fn complaints(slots: &[Slot]) -> Vec<String> {
    let mut found: Vec<(Complaint, String)> = Vec::new();
    for slot in slots {
        let following = slot.following.as_ref();
        let Some(complaint) = following.and_then(Following::complaint) else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| known.is_as(&complaint)) {
            Some((known, slots)) => {
                known.since_s = known.since_s.max(complaint.since_s);
                slots.push_str(", ");
                slots.push_str(&slot.slot);
            }
            None => found.push((complaint, slot.slot.clone())),
        }
    }
    let lines = found.iter().map(|(complaint, slots)| complaint.line(slots));
    lines.collect()
}

/// Whether an upstream cannot be followed because the time of day is wrong.
pub(super) fn is_clock_in_doubt(slots: &[Slot]) -> bool {
    let links = slots
        .iter()
        .filter_map(|slot| slot.following.as_ref())
        .flat_map(|following| &following.links);
    links
        .filter(|link| link.phase != LinkPhase::Open)
        .any(|link| link.clock_in_doubt)
}

#[cfg(test)]
mod tests {
    use super::super::{ClockState, Status, sample, sample_following, sample_upstream};
    use super::*;

    const REFUSED: &str = "primary.example:443: cannot connect";

    /// Slots `inventory/dev` and so on, each following so.
    fn following(each: &[Following]) -> Status {
        let mut status = sample();
        let slot = status.slots.remove(0);
        let upstreams = Role::ALL.map(sample_upstream);
        status.upstreams = Some(upstreams.into());
        for (number, following) in each.iter().enumerate() {
            status.slots.push(Slot {
                slot: format!("c/{number}"),
                following: Some(following.clone()),
                ..slot.clone()
            });
        }
        status.judged()
    }

    fn lost(upstream: Option<Role>, since_s: u64, problem: &str) -> Following {
        let mut following = sample_following();
        following.upstream = upstream;
        following.since_s = since_s;
        following.live = upstream.is_some();
        following.links[0].phase = LinkPhase::Down;
        following.links[0].last_problem = Some(problem.into());
        following.links[0].last_problem_s = Some(since_s);
        following
    }

    #[test]
    fn a_writer_of_another_region_is_called_by_its_name() {
        let mut status = following(&[sample_following()]);
        let slot = status.slots[0].following.as_mut().unwrap();
        slot.writer = Some("eu-1".into());
        assert_eq!(slot.in_words(), "writer eu-1, live");
        (slot.upstream, slot.live) = (None, false);
        slot.links[0].phase = LinkPhase::Down;
        slot.links[0].last_problem = Some("eu-1.test:7070: no answer".into());
        slot.links[0].last_problem_s = Some(60);
        let line = complaints(&status.slots).remove(0);
        assert!(
            line.ends_with(": writer eu-1: eu-1.test:7070: no answer"),
            "{line}"
        );
    }

    #[test]
    fn whoever_follows_the_primary_has_no_problem() {
        let status = following(&[sample_following()]);
        assert_eq!(status.problems, Vec::<String>::new());
        let mut fresh = sample_following();
        (fresh.upstream, fresh.live, fresh.since_s) = (None, false, 0);
        let status = following(&[fresh]);
        assert_eq!(status.problems, Vec::<String>::new(), "the first dial");
        assert!(status.ready);
    }

    #[test]
    fn slots_with_one_cause_complain_in_one_line() {
        let status = following(&[
            lost(Some(Role::Backup), 61, REFUSED),
            sample_following(),
            lost(Some(Role::Backup), 754, REFUSED),
            lost(None, 5, "primary.example:443: answered 404"),
        ]);
        let backup = "the backup has been followed for 12 min by c/0, c/2: primary: ";
        let nobody =
            "no upstream has been followed for 5 s by c/3, what is served stays: primary: ";
        let expected = [
            format!("{backup}{REFUSED}"),
            format!("{nobody}primary.example:443: answered 404"),
        ];
        assert_eq!(status.problems, expected);
        assert!(status.ready, "stale content is content");
    }

    #[test]
    fn a_link_that_brings_no_document_is_told() {
        let mut unfetched = sample_following();
        unfetched.live = false;
        assert_eq!(following(&[unfetched.clone()]).problems.len(), 0);
        unfetched.links[0].last_problem = Some("answered 503".into());
        unfetched.links[0].last_problem_s = Some(180);
        assert_eq!(
            following(&[unfetched]).problems,
            ["no document of the primary for 3 min, c/0 may be old: answered 503"]
        );
    }

    #[test]
    fn a_refused_key_is_told_with_iams_own_problem() {
        let mut status = following(&[sample_following()]);
        let mut backup = sample_upstream(Role::Backup);
        backup.token = Token::Refused;
        backup.token_problem = Some("iam.example:443: IAM refuses the API key (400)".into());
        assert_eq!(
            backup.in_words(),
            "https://backup.example, API key refused",
            "and nothing of the key"
        );
        status.upstreams = Some(vec![sample_upstream(Role::Primary), backup]);
        assert_eq!(
            status.judged().problems,
            [
                "the API key of the backup is refused: iam.example:443: IAM refuses the API key (400)"
            ]
        );
    }

    #[test]
    fn an_unset_clock_is_a_problem_where_certificates_depend_on_it() {
        let mut waiting = lost(None, 5, "primary.example:443: not valid yet");
        waiting.links[0].clock_in_doubt = true;
        let mut status = following(&[waiting]);
        assert_eq!(status.problems.len(), 1, "{:?}", status.problems);
        status.problems.clear();
        status.clock.state = ClockState::NotSet;
        let status = status.judged();
        assert!(status.problems[0].starts_with("the clock of this machine is not set"));
        assert_eq!(status.problems.len(), 2);
    }

    #[test]
    fn words_fit_a_table() {
        let mut words = vec![sample_following().in_words()];
        words.push(lost(Some(Role::Backup), 754, REFUSED).in_words());
        let mut nobody = lost(None, 754, REFUSED);
        nobody.next_dial = Some(NextDial {
            role: Role::Primary,
            in_s: 8,
        });
        words.push(nobody.in_words());
        let expected = [
            "primary, live",
            "backup for 12 min, live",
            "nobody for 12 min, primary in 8 s",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn roles_are_written_as_everywhere_else() {
        for role in Role::ALL {
            let text = serde_json::to_string(&role).unwrap();
            assert_eq!(text, format!("\"{}\"", role.as_str()));
        }
    }
}
