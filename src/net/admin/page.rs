//! The status page: one document without scripts, for a technician with any browser.
//!
//! Owns the order of what is told: first whether all is well, in words and colour, then what is
//! wrong, then each slot, then the facts that somebody on the telephone will ask for. It loads
//! nothing, runs nothing, and asks itself anew every few seconds.
//!
//! Invariant: every text that is not written here goes through [`Escaped`].

mod style;

use std::fmt::{self, Display, Write as _};

use crate::model::Role;
use crate::wire::status::{
    ClockState, EventCounts, Phase, Slot, Status, age_in_words, bytes_in_words,
};

use style::STYLE;

/// The value of `Content-Security-Policy`: what the page holds is all there is.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                          form-action 'none'; frame-ancestors 'none'";

/// How often a browser asks again.
const REFRESH_S: u64 = 5;

/// The page.
///
/// Bounded by the number of slots and problems.
pub fn render(status: &Status) -> String {
    let mut page = String::new();
    // A string takes everything.
    let _ = write_page(&mut page, status);
    page
}

fn write_page(page: &mut String, status: &Status) -> fmt::Result {
    let verdict = Verdict::of(status);
    let title = Escaped(&verdict.headline);
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"refresh\" content=\"{REFRESH_S}\">\n\
         <title>{title} – Staffetta</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>Staffetta</h1><p>{}</p></header>\n\
         <section class=\"verdict {}\"><h2>{title}</h2>\n",
        moment(status),
        verdict.class
    )?;
    write_problems(page, status)?;
    write_notes(page, status)?;
    page.push_str("</section>\n<main>\n");
    write_slots(page, status)?;
    write_facts(page, status)?;
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(())
}

/// The one line that somebody in a hurry reads.
struct Verdict {
    class: &'static str,
    headline: String,
}

impl Verdict {
    fn of(status: &Status) -> Verdict {
        let (problems, slots) = (status.problems.len(), status.slots.len());
        let serving = status.slots.iter().filter(|slot| slot.serves.is_some());
        let serving = serving.count();
        let share = match (serving, slots) {
            (_, 0) => format!("requests go on to {} clusters", status.clusters.len()),
            (1, 1) => "the slot is served".to_owned(),
            _ if serving == slots => format!("all {slots} slots are served"),
            _ => format!("{serving} of {slots} slots are served"),
        };
        let headline = match (status.state, problems) {
            (Phase::Draining, _) => "Shutting down".to_owned(),
            (Phase::Serving, 0) => format!("All is well: {share}"),
            (Phase::Serving, 1) => format!("1 problem; {share}"),
            (Phase::Serving, _) => format!("{problems} problems; {share}"),
        };
        let class = match (status.ready, problems) {
            (true, 0) => "good",
            (true, _) => "warn",
            (false, _) => "bad",
        };
        Verdict { class, headline }
    }
}

fn moment(status: &Status) -> String {
    let time = status.clock.time.replace('T', " ").replace('Z', " UTC");
    match status.clock.state {
        ClockState::Set => Escaped(&time).to_string(),
        ClockState::NotSet => format!("clock not set ({})", Escaped(&time)),
    }
}

fn write_problems(page: &mut String, status: &Status) -> fmt::Result {
    if status.problems.is_empty() {
        return Ok(());
    }
    page.push_str("<ul>\n");
    for problem in &status.problems {
        writeln!(page, "<li>{}</li>", Escaped(problem))?;
    }
    page.push_str("</ul>\n");
    Ok(())
}

fn write_notes(page: &mut String, status: &Status) -> fmt::Result {
    for note in &status.notes {
        writeln!(page, "<p>Note: {}</p>", Escaped(note))?;
    }
    Ok(())
}

fn write_slots(page: &mut String, status: &Status) -> fmt::Result {
    let follows = match status.upstreams {
        Some(_) => "<th>Follows</th>",
        None => "",
    };
    write!(
        page,
        "<table>\n<thead><tr><th>Slot</th><th>State</th>{follows}<th>Clients</th><th>Holds</th>\
         </tr></thead>\n<tbody>\n"
    )?;
    for slot in &status.slots {
        write_slot(page, slot)?;
    }
    page.push_str("</tbody>\n</table>\n");
    Ok(())
}

fn write_slot(page: &mut String, slot: &Slot) -> fmt::Result {
    let (class, state) = match (&slot.serves, &slot.last_error) {
        (Some(served), None) => {
            let class = match slot.is_well_followed() {
                true => "good",
                false => "warn",
            };
            (class, format!("serving {}", served.in_words()))
        }
        (Some(served), Some(_)) => (
            "warn",
            format!("serving {}; newer content refused", served.in_words()),
        ),
        (None, _) => ("bad", "nothing to serve".to_owned()),
    };
    let mut holds = String::new();
    if let Some(served) = &slot.serves {
        write!(
            holds,
            "{} flags, {} properties, {} segments, {}",
            served.features,
            served.properties,
            served.segments,
            bytes_in_words(served.bytes)
        )?;
    }
    let mut follows = String::new();
    if let Some(following) = &slot.following {
        let words = following.in_words();
        write!(follows, "<td data-is=\"Follows\">{}</td>", Escaped(&words))?;
    }
    let clients = match slot.clients.in_words() {
        words if words.is_empty() => "none".to_owned(),
        words => words,
    };
    writeln!(
        page,
        "<tr class=\"{class}\"><th>{}</th><td>{}</td>{follows}<td data-is=\"Clients\">{}</td>\
         <td data-is=\"Holds\">{}</td></tr>",
        Escaped(&slot.slot),
        Escaped(&state),
        Escaped(&clients),
        Escaped(&holds)
    )
}

fn write_facts(page: &mut String, status: &Status) -> fmt::Result {
    page.push_str("<dl>\n");
    for (name, value) in facts(status) {
        writeln!(
            page,
            "<div><dt>{name}</dt><dd>{}</dd></div>",
            Escaped(&value)
        )?;
    }
    page.push_str("</dl>\n");
    Ok(())
}

fn facts(status: &Status) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Relay", format!("version {}", status.version)),
        ("Running for", age_in_words(status.uptime_s)),
        ("Instance", status.instance.guid.clone()),
    ];
    if let Some(region) = &status.instance.region {
        facts.push(("Region", region.clone()));
    }
    match &status.seed {
        Some(seed) => {
            facts.push(("Seed file", seed.file.clone()));
            let read = match seed.read_s {
                Some(read_s) => {
                    let (size, age) = (bytes_in_words(seed.bytes), age_in_words(read_s));
                    format!("{size}, {age} ago")
                }
                None => "never".to_owned(),
            };
            facts.push(("Seed last read", read));
        }
        None => facts.push(("Seed file", "none configured".to_owned())),
    }
    for upstream in status.upstreams.iter().flatten() {
        let name = match upstream.role {
            Role::Primary => "Primary",
            Role::Backup => "Backup",
        };
        facts.push((name, upstream.in_words()));
    }
    if let Some(state_dir) = &status.state_dir {
        facts.push(("State folder", state_dir.in_words()));
    }
    let (open, keys) = (&status.connections, &status.keys);
    let mut connections = format!("{} of {}", open.sdk, open.limit);
    if open.lobby > 0 {
        // A string takes everything.
        let _ = write!(connections, ", {} turned away", open.lobby);
    }
    facts.push(("Connections", connections));
    facts.push((
        "Client keys",
        match keys.unreadable {
            0 => keys.configured.to_string(),
            unreadable => format!("{}, {unreadable} of them unreadable", keys.configured),
        },
    ));
    facts.push(("TLS", if status.tls { "yes" } else { "no" }.to_owned()));
    if let Some(region) = &status.region {
        facts.push(("Region routing", region.in_words()));
    }
    for cluster in &status.clusters {
        let words = format!("{}: {}", cluster.id, cluster.in_words());
        facts.push(("Cluster", words));
    }
    facts.push(("Usage reports", reports(&status.events.usage)));
    facts.push(("Analytics reports", reports(&status.events.analytics)));
    if !status.events.counted_only {
        facts.push(("Events", status.events.in_words()));
    }
    let refused: Vec<String> = status
        .refusals
        .iter()
        .map(|(reason, count)| format!("{count} {}", reason.replace('_', " ")))
        .collect();
    if !refused.is_empty() {
        facts.push(("Turned away", refused.join(", ")));
    }
    facts
}

fn reports(counts: &EventCounts) -> String {
    let EventCounts {
        reports,
        malformed,
        malformed_entries,
        ..
    } = counts;
    let mut words = reports.to_string();
    for (count, what) in [
        (malformed, "unreadable"),
        (malformed_entries, "entries unreadable"),
    ] {
        if *count > 0 {
            // A string takes everything.
            let _ = write!(words, ", {count} {what}");
        }
    }
    words
}

/// Text that cannot become markup, in an element or in an attribute.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                c => formatter.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::status::{LastError, sample, sample_following, sample_upstream};

    #[test]
    fn a_healthy_relay_says_so_in_one_line() {
        let page = render(&sample());
        assert!(page.contains("<h2>All is well: the slot is served</h2>"));
        assert!(page.contains("serving seed version 3, 12 min old"));
        assert!(page.contains("2 WebSocket, 1 SSE"));
        assert!(page.contains("class=\"verdict good\""));
        assert!(!page.contains("<li>"), "{page}");
    }

    #[test]
    fn problems_come_first_and_name_the_slot() {
        let mut status = sample();
        status.slots[0].last_error = Some(LastError {
            problem: "no `type`".into(),
            since_s: 90,
            times: 3,
        });
        let page = render(&status.judged());
        let problem = page.find("<li>slot inventory/dev has refused newer content for 1 min");
        assert!(problem.is_some_and(|at| at < page.find("<table>").unwrap()));
        assert!(page.contains("<title>1 problem; the slot is served"));
        assert!(page.contains("newer content refused"));
    }

    #[test]
    fn a_slot_on_the_backup_is_served_and_not_well() {
        let mut status = sample();
        assert!(!render(&status).contains("Follows"), "an isolated site");
        status.upstreams = Some(Role::ALL.map(sample_upstream).into());
        let mut following = sample_following();
        status.slots[0].following = Some(following.clone());
        let page = render(&status.clone().judged());
        assert!(page.contains("<tr class=\"good\">"), "{page}");
        assert!(page.contains("<td data-is=\"Follows\">primary, live</td>"));
        assert!(page.contains("<dt>Backup</dt><dd>https://backup.example, token valid</dd>"));
        following.upstream = Some(Role::Backup);
        status.slots[0].following = Some(following);
        let page = render(&status.judged());
        assert!(page.contains("<tr class=\"warn\">"), "{page}");
        assert!(page.contains("backup for 11 min, live"));
        assert!(page.contains("<li>the backup has been followed for 11 min by inventory/dev"));
    }

    #[test]
    fn notes_alarm_nobody() {
        let mut status = sample();
        status.events.dropped_entries = 3;
        let page = render(&status.judged());
        assert!(page.contains("class=\"verdict good\""), "{page}");
        assert!(page.contains("<p>Note: 3 entries of reports are lost"));
    }

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let mut status = sample();
        status.problems = vec!["flag \"<script>alert('&')</script>\"".into()];
        let page = render(&status);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("flag &quot;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"));
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = render(&sample());
        for word in ["src=", "href=", "url(", "@import", "<script"] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn an_unset_clock_is_told() {
        let mut status = sample();
        status.clock.state = ClockState::NotSet;
        assert!(render(&status).contains("clock not set ("));
    }
}
