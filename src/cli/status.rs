//! `staffetta status`: what the running relay is doing, for people and for monitoring.
//!
//! Owns the table: what there is to know of the relay, a line or two a slot, then every problem in
//! words, and what is no problem and worth a note, all within 80 columns for a serial console.
//! `--json` passes the relay's own document on untouched; `--check` says one line and sets the exit
//! code.
//!
//! Never judges: what is a problem the relay has worked out itself.

use std::fmt::Write as _;

use super::admin::{AdminError, Reply, address_value, ask, default_address};
use super::{Command, Exit, UsageError, complain, explain, say};
use crate::config::Listen;
use crate::limits::Limits;
use crate::wire::status::{ClockState, Phase, Status, age_in_words, bytes_in_words};

/// The command.
pub const COMMAND: Command = Command {
    name: "status",
    usage: "status [--admin ADDR] [--json] [--check]",
    summary: "Shows what the running relay serves; --check fails while a problem stands.",
    run,
};

/// A console's width.
const COLUMNS: usize = 80;

/// Width of the slots' names; a longer one gets a line of its own.
const NAME_COLUMNS_MAX: usize = 23;

#[derive(Clone, Copy)]
enum Form {
    Table,
    Json,
    Check,
}

fn run(parser: &mut lexopt::Parser) -> Result<Exit, UsageError> {
    use lexopt::prelude::*;
    let (mut admin, mut form) = (None, Form::Table);
    while let Some(argument) = parser.next()? {
        match (argument, form) {
            (Long("admin"), _) => admin = Some(address_value(parser)?),
            (Long("json"), Form::Table | Form::Json) => form = Form::Json,
            (Long("check"), Form::Table | Form::Check) => form = Form::Check,
            (Short('h') | Long("help"), _) => return Ok(explain(&COMMAND)),
            (other, _) => return Err(other.unexpected().into()),
        }
    }
    let address = admin.unwrap_or_else(default_address);
    Ok(show(&address, form, &Limits::PRODUCTION))
}

fn show(address: &Listen, form: Form, limits: &Limits) -> Exit {
    let outcome = fetch(address, limits);
    match (form, outcome) {
        (Form::Check, Ok((_, status))) => {
            let (is_fine, line) = check(&status);
            say(format_args!("{line}"));
            if is_fine { Exit::Done } else { Exit::Failed }
        }
        // Monitors read standard output.
        (Form::Check, Err(problem)) => {
            say(format_args!("problem: {problem}"));
            Exit::Failed
        }
        (Form::Json, Ok((document, _))) => {
            say(format_args!("{}", document.trim_end()));
            Exit::Done
        }
        (Form::Table, Ok((_, status))) => {
            say(format_args!("{}", table(&status).trim_end()));
            Exit::Done
        }
        (Form::Json | Form::Table, Err(problem)) => {
            complain(format_args!("staffetta status: {problem}"));
            Exit::Failed
        }
    }
}

/// The document, as text and read.
fn fetch(address: &Listen, limits: &Limits) -> Result<(String, Status), String> {
    let reply = ask(address, ("GET", "/status"), None, limits);
    let Reply { status, body, .. } = reply.map_err(|error: AdminError| error.to_string())?;
    if status != 200 {
        return Err(format!("the relay answers {status}"));
    }
    let document = String::from_utf8(body).map_err(|_| "the answer is no text".to_owned())?;
    match serde_json::from_str(&document) {
        Ok(status) => Ok((document, status)),
        Err(error) => Err(format!("the document is of another version: {error}")),
    }
}

/// Whether all is well, and the line that says so.
fn check(status: &Status) -> (bool, String) {
    let (slots, clients) = (status.slots.len(), status.streams());
    match (status.problems.as_slice(), status.ready) {
        ([], true) => (
            true,
            format!("ok: slots served: {slots}, clients: {clients}"),
        ),
        ([], false) => (false, "problem: not ready".to_owned()),
        ([only], _) => (false, format!("problem: {only}")),
        ([first, others @ ..], _) => (
            false,
            format!("problem: {first} (and {} more)", others.len()),
        ),
    }
}

/// The whole table, for people.
fn table(status: &Status) -> String {
    let mut text = String::new();
    write_head(&mut text, status);
    write_clusters(&mut text, status);
    write_region(&mut text, status);
    write_slots(&mut text, status);
    text.push('\n');
    match status.problems.as_slice() {
        [] => text.push_str("No problems.\n"),
        problems => {
            text.push_str("Problems:\n");
            for problem in problems {
                write_wrapped(&mut text, problem);
            }
        }
    }
    if !status.notes.is_empty() {
        text.push_str("Notes:\n");
        for note in &status.notes {
            write_wrapped(&mut text, note);
        }
    }
    text
}

fn write_head(text: &mut String, status: &Status) {
    let phase = match status.state {
        Phase::Serving => "serving",
        Phase::Draining => "shutting down",
    };
    let clock = match status.clock.state {
        ClockState::Set => "",
        ClockState::NotSet => " (not set)",
    };
    let seed = match &status.seed {
        None => "none configured".to_owned(),
        Some(seed) => match seed.read_s {
            Some(read_s) => format!(
                "{}, {}, read {} ago",
                seed.file,
                bytes_in_words(seed.bytes),
                age_in_words(read_s)
            ),
            None => format!("{}, never read", seed.file),
        },
    };
    let state_dir = match &status.state_dir {
        None => "none configured".to_owned(),
        Some(state_dir) => state_dir.in_words(),
    };
    let (open, keys) = (&status.connections, &status.keys);
    let tls = if status.tls { "TLS" } else { "no TLS" };
    let lines = [
        format!(
            "staffetta {}, {phase}, up {}",
            status.version,
            age_in_words(status.uptime_s)
        ),
        format!("instance     {}", status.instance.guid),
        format!("clock        {}{clock}", status.clock.time),
        format!("seed         {seed}"),
        format!("state        {state_dir}"),
        format!(
            "connections  {} of {}; client keys: {}; {tls}",
            open.sdk, open.limit, keys.configured
        ),
        format!(
            "reports      {} usage, {} analytics",
            status.events.usage.reports, status.events.analytics.reports
        ),
    ];
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    for upstream in status.upstreams.iter().flatten() {
        let (role, words) = (upstream.role.as_str(), upstream.in_words());
        // A string takes everything.
        let _ = writeln!(text, "{role:11}  {words}");
    }
    if !status.events.counted_only {
        text.push_str("events       ");
        text.push_str(&status.events.in_words());
        text.push('\n');
    }
}

fn write_clusters(text: &mut String, status: &Status) {
    for cluster in &status.clusters {
        // A string takes everything.
        let _ = writeln!(text, "cluster      {}: {}", cluster.id, cluster.in_words());
    }
}

fn write_region(text: &mut String, status: &Status) {
    if let Some(region) = &status.region {
        // A string takes everything.
        let _ = writeln!(text, "region       {}", region.in_words());
    }
}

fn write_slots(text: &mut String, status: &Status) {
    let names = status.slots.iter().map(|slot| slot.slot.len());
    let fitting = names.filter(|length| *length <= NAME_COLUMNS_MAX);
    let width = fitting.max().unwrap_or(0).max("SLOT".len());
    text.push('\n');
    let row =
        |text: &mut String, name: &str, serves: &str, clients: &str, flags: &str, size: &str| {
            let name = match name.len() > width {
                true => {
                    text.push_str(name);
                    text.push('\n');
                    ""
                }
                false => name,
            };
            // A string takes everything.
            let _ = writeln!(
                text,
                "{name:width$}  {serves:34}{clients:>7}{flags:>7}{size:>7}"
            );
        };
    row(text, "SLOT", "SERVES", "CLIENTS", "FLAGS", "KiB");
    for slot in &status.slots {
        let clients = slot.clients.streams().to_string();
        match &slot.serves {
            Some(served) => {
                let (flags, size) = (served.features, served.bytes.div_ceil(1024));
                let (flags, size) = (flags.to_string(), size.to_string());
                let serves = served.in_words();
                row(text, &slot.slot, &serves, &clients, &flags, &size);
            }
            None => row(text, &slot.slot, "nothing", &clients, "-", "-"),
        }
        if let Some(following) = &slot.following {
            // A string takes everything.
            let _ = writeln!(text, "{:width$}  follows {}", "", following.in_words());
        }
    }
}

/// A list item, broken at spaces.
fn write_wrapped(text: &mut String, item: &str) {
    let mut column = 0;
    for word in item.split(' ') {
        let length = word.chars().count();
        if column == 0 {
            text.push_str("- ");
            column = 2;
        } else if column + 1 + length > COLUMNS {
            text.push_str("\n  ");
            column = 2;
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;
    use crate::wire::status::{LastError, sample};
    use crate::wire::status::{NextDial, sample_following, sample_upstream};

    fn troubled() -> Status {
        let mut status = sample();
        let mut other = status.slots[0].clone();
        other.slot = "a-collection-with-a-long-name/an-environment-with-one".into();
        other.serves = None;
        other.last_error = Some(LastError {
            problem: "feature `fast-checkout`: segment rule 2: rollout percentage is 120".into(),
            since_s: 90,
            times: 4,
        });
        status.slots.push(other);
        status.judged()
    }

    #[test]
    fn the_table_shows_each_slot_in_aligned_columns() {
        let text = table(&sample());
        let row = "inventory/dev  seed version 3, 12 min old              3      5     13\n";
        assert!(text.contains(row), "{text}");
        assert!(
            text.starts_with("staffetta 0.1.0, serving, up 3 h 12 min\n"),
            "{text}"
        );
        assert!(text.ends_with("\nNo problems.\n"), "{text}");
    }

    #[test]
    fn the_table_says_whom_each_slot_follows() {
        let mut status = sample();
        status.upstreams = Some(Role::ALL.map(sample_upstream).into());
        let mut slot = status.slots[0].clone();
        status.slots[0].following = Some(sample_following());
        slot.slot = "x".repeat(NAME_COLUMNS_MAX);
        let mut following = sample_following();
        (following.upstream, following.live) = (None, false);
        following.since_s = 9 * 86_400 - 1;
        following.next_dial = Some(NextDial {
            role: Role::Primary,
            in_s: 599,
        });
        slot.following = Some(following);
        status.slots.push(slot);
        status.events.set_aside = 1;
        let text = table(&status.judged());
        for words in [
            "\nprimary      https://primary.example, token valid\n",
            "\nbackup       https://backup.example, token valid\n",
            "  follows primary, live\n",
            "  follows nobody for 8 days 23 h, primary in 9 min\n",
            "\nNo problems.\nNotes:\n- 1 reports",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        let mut lines = text.lines();
        assert!(lines.all(|line| line.chars().count() <= COLUMNS), "{text}");
    }

    #[test]
    fn the_table_fits_a_console_whatever_the_names() {
        let mut status = troubled();
        let mut widest = status.slots[0].clone();
        widest.slot = "x".repeat(NAME_COLUMNS_MAX);
        if let Some(served) = &mut widest.serves {
            (served.version, served.age_s) = (1_234, 345_600);
        }
        status.slots.push(widest);
        let text = table(&status);
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line:?}");
        }
        assert!(text.contains("\na-collection-with-a-long-name/an-environment-with-one\n"));
        assert!(text.contains("Problems:\n- slot a-collection"), "{text}");
    }

    #[test]
    fn a_check_fails_while_a_problem_stands() {
        assert_eq!(
            check(&sample()),
            (true, "ok: slots served: 1, clients: 3".into())
        );
        let mut status = troubled();
        let (is_fine, line) = check(&status);
        assert!(
            !is_fine && line.starts_with("problem: slot a-coll"),
            "{line}"
        );
        status.problems.push("another".into());
        assert!(check(&status).1.ends_with(" (and 1 more)"));
        status.problems.clear();
        assert_eq!(check(&status), (false, "problem: not ready".into()));
    }

    #[test]
    fn nobody_there_is_exit_1_in_every_form() {
        let path = std::env::temp_dir().join("staffetta-no-such-relay.sock");
        let address = Listen::Unix(path);
        for form in [Form::Table, Form::Json, Form::Check] {
            assert_eq!(show(&address, form, &Limits::PRODUCTION).code(), 1);
        }
    }
}
