//! One application with the SDK in it, wherever it runs.

use super::expected::Expected;
use super::page::Page;
use super::{chromium, installed};
use crate::app::entities;
use crate::child::{Child, Said};
use crate::harness::site::Site;
use crate::harness::{GUID, KEY, PATIENCE, REGION};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const IN_NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/js/node.mjs");

/// A slot as the SDK is asked for it: collection and environment.
pub type Slot = (&'static str, &'static str);

/// The command that runs the application in Node.
pub fn in_node(options: &Value) -> Vec<OsString> {
    let node = crate::debian::find("node").unwrap_or_else(|| PathBuf::from("node"));
    vec![node.into(), IN_NODE.into(), options.to_string().into()]
}

fn options(slot: Slot, service: Option<&str>) -> Value {
    json!({
        "region": REGION, "guid": GUID, "key": KEY, "service": service,
        "collection": slot.0, "environment": slot.1,
    })
}

/// Serves the page of an application of `slot`. Without `service`, that is where the browser has
/// the page from.
pub fn page(installed: &Path, slot: Slot, service: Option<&str>, seed: &str) -> Page {
    let mut options = options(slot, service);
    options["seed"] = serde_json::from_str(seed).expect("the seed is JSON");
    Page::serve(&installed::bundle(installed), &options)
}

/// A running application.
pub struct Application {
    pub slot: Slot,
    child: Child,
    page: Option<Page>,
}

impl Application {
    /// Starts an application of `slot` in Node.
    pub fn in_node(
        installed: &Path,
        site: &Site,
        slot: Slot,
        service: &str,
        environment: &[(&str, OsString)],
        seed: &str,
    ) -> Application {
        let mut options = options(slot, Some(service));
        options["installed"] = json!(installed);
        options["seed"] = json!(entities(site, seed));
        let child = Child::start(&[], in_node(&options), environment);
        Application {
            slot,
            child,
            page: None,
        }
    }

    /// Starts an application of `slot` on `page`, which the browser has from `address`.
    pub fn on_page(
        browser: &Path,
        site: &Site,
        slot: Slot,
        page: Page,
        address: &str,
    ) -> Application {
        let profile = site.scratch.path("profile");
        let words = chromium::command(browser, &profile, address);
        let home = [("HOME", profile.into())];
        Application {
            slot,
            child: Child::start(&[], words, &home),
            page: Some(page),
        }
    }

    fn said(&self) -> &Said {
        self.page
            .as_ref()
            .map_or(&self.child.said, |page| &page.said)
    }

    /// A place in what the application has said, to wait from.
    pub fn mark(&self) -> usize {
        self.said().mark()
    }

    /// Waits for `event` from `mark` on, with whatever it says.
    pub fn wait(&self, mark: usize, event: &str) {
        self.wait_until(mark, event, PATIENCE, |_| true);
    }

    /// Waits for an `event` from `mark` on at which every flag and property is as `expected`.
    pub fn wait_for_values(&self, mark: usize, event: &str, expected: &Expected, most: Duration) {
        let values = expected.values(self.slot);
        self.wait_until(mark, event, most, |said| said["values"] == *values);
    }

    /// Waits until a report has been accepted, with the one status that every SDK takes for that,
    /// from `mark` on.
    pub fn wait_until_reported(&self, mark: usize, to: &str) {
        let accepted = |said: &Value| said["to"] == to && said["status"] == 202;
        self.wait_until(mark, "posted", PATIENCE, accepted);
    }

    fn wait_until(&self, mark: usize, event: &str, most: Duration, holds: impl Fn(&Value) -> bool) {
        let found = self.said().find(mark, event, most, holds);
        let said = || self.said().0.all();
        assert!(
            found.is_some(),
            "{:?}: no {event:?} as expected; the application said\n{}\nand logged\n{}",
            self.slot,
            said()
                .lines()
                .map(|line| line.get(..200).unwrap_or(line))
                .collect::<Vec<_>>()
                .join("\n"),
            self.child.log.all()
        );
    }

    /// Nothing was refused, and nothing broke on the way.
    pub fn check_nothing_failed(&self) {
        self.check_lost_reports(0);
    }

    /// The same, but for so many reports that were on their way to a server that was killed.
    pub fn check_lost_reports(&self, lost_max: usize) {
        assert_eq!(
            self.said().every("failed"),
            Vec::<Value>::new(),
            "{:?}",
            self.slot
        );
        let posted = self.said().every("posted");
        let others = |posted: &&Value| posted["status"] != 202;
        let others: Vec<&Value> = posted.iter().filter(others).collect();
        let is_lost = |posted: &&Value| posted["status"] == 502;
        assert!(
            others.len() <= lost_max && others.iter().all(is_lost),
            "{:?}: {others:?}",
            self.slot
        );
    }

    /// Loads the page again, as its user would. Gives the place from which to wait for its words.
    pub fn reload(&self) -> usize {
        let mark = self.mark();
        let page = self.page.as_ref().expect("it is a page");
        let leave = page.leave.as_ref().expect("it is not left");
        leave.send(()).expect("the page is served");
        mark
    }

    /// Leaves the page, as its user would.
    pub fn leave(&mut self) {
        let mark = self.mark();
        let page = self.page.as_mut().expect("it is a page that can be left");
        page.leave = None;
        self.wait(mark, "left");
    }

    /// Ends the process in order, so that a browser leaves its profile alone from now on.
    pub fn end(self) {
        self.child.end();
    }
}
