//! What a reload changes of a node's part in region routing.

use super::*;
use crate::net::reload;

fn config(sites: &Sites, index: usize) -> std::path::PathBuf {
    sites.folder(index).with_extension("json")
}

/// The config without a region, and without what there is only with one.
fn without_region(text: &str) -> String {
    let is_kept = |line: &&str| !line.contains("\"region\"");
    let lines: Vec<&str> = text.lines().filter(is_kept).collect();
    lines.join("\n").replace(r#""RegionSlot": "orders""#, "")
}

fn reload(sites: &Sites, index: usize) -> reload::Report {
    let driver = sites.driver(index);
    let (done, reloaded) = smol::channel::bounded(1);
    let task = driver.clone();
    driver.spawn(async move {
        let report = reload::reload(&task).await;
        done.try_send(report).unwrap();
    });
    sites.settle();
    reloaded.try_recv().unwrap()
}

#[test]
fn a_region_that_is_taken_out_stays_until_the_next_start() {
    let sites = settled_by("region-reload-out", &switch_to_eu());
    assert_done(&push(&sites, AU, "", "a"), "5-1");
    let path = config(&sites, AU);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, without_region(&text)).unwrap();
    let report = reload(&sites, AU);
    assert!(report.is_applied, "{report:?}");
    let line = "region.node changed: takes effect at the next start";
    assert!(
        report.lines.iter().any(|found| found.contains(line)),
        "{report:?}"
    );
    assert_done(&push(&sites, AU, "", "b"), "5-2");
    sites
        .bring(AU, &document(2, &NAMES, &switch_to_eu()))
        .unwrap();
    sites.advance(SECOND * 11);
    let status = status(&sites, EU);
    assert!(status.contains(r#""phase":"active""#), "{status}");
    assert!(!status.contains(r#""unsealed_takeover":true"#), "{status}");
    assert!(slot(&sites, EU).contains(r#""value":"b""#));
}

#[test]
fn a_region_that_is_put_in_lets_no_peer_in_before_the_next_start() {
    let sites = Sites::new("region-reload-in", &NAMES);
    let origin = sites.driver(AU).loaded.borrow().origin.clone();
    let with: Loaded = load::load(origin.clone(), &limits()).unwrap();
    let text = std::fs::read_to_string(&origin.path).unwrap();
    std::fs::write(&origin.path, without_region(&text)).unwrap();
    let running = load::load(origin, &limits()).unwrap();
    let mut found = with;
    assert_eq!(found.keys_in_use().len(), 2);
    found.keep_running(&running);
    assert_eq!(found.keys_in_use().len(), 1);
    assert!(found.region.is_none() && found.config.region.is_none());
}

#[test]
fn a_file_with_an_older_record_is_no_problem() {
    let sites = settled("region-reload-file");
    let driver = sites.driver(AU);
    let problem = || driver.region.as_ref().unwrap().record.problem();
    sites.bring(AU, &document(2, &NAMES, "")).unwrap();
    let file = sites.folder(AU).with_extension("record");
    let text = crate::wire::region::pack(document(1, &NAMES, "").as_bytes(), None);
    std::fs::write(&file, text).unwrap();
    let path = config(&sites, AU);
    let text = std::fs::read_to_string(&path).unwrap();
    let with_file = format!("\"region\": {{ \"record\": {file:?},");
    std::fs::write(&path, text.replace("\"region\": {", &with_file)).unwrap();
    let report = reload(&sites, AU);
    let is_said = |line: &String| line.contains("older than version 2");
    assert!(report.lines.iter().any(is_said), "{report:?}");
    assert_eq!(problem(), None);
    assert!(sites.bring(AU, "{}").is_err());
    assert!(problem().is_some());
    sites.bring(AU, &document(2, &NAMES, "")).unwrap();
    assert_eq!(problem(), None);
}
