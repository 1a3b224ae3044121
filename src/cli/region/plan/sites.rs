//! Regions that come, move or get other nodes.
//!
//! What a record says about times and terms stays as it is; who is primary is followed by the name
//! of the region. A node is known by its name: with another URL it is the same one, and keeps its
//! word. Another writer is another one, and no term has two: a region gets it only while another
//! region is primary.
//!
//! Never takes a region away: its terms may be in force.

use super::{PlanError, Planned, Site, checked, position, successor};
use crate::limits::Limits;
use crate::model::Id;
use crate::model::region::{Node, NodeIndex, Record, Region, RegionIndex, Seat, SlotClass};
use crate::state::region::schedule::term_at;
use crate::time::WallMs;

/// Makes the next record: `sites` take the places of those of the same name, or are added. Bounded
/// by the size of the record.
///
/// # Errors
/// `WriterInForce`, or what the reader would refuse.
pub fn settle(
    record: &Record,
    sites: &[Site],
    issued_at: WallMs,
    limits: &Limits,
) -> Result<Planned, PlanError> {
    let mut next = successor(record, issued_at);
    let kept = record.regions.iter().map(|region| {
        let given = sites.iter().find(|site| site.name == region.name);
        given.cloned().unwrap_or_else(|| site_of(record, region))
    });
    let mut all: Vec<Site> = kept.collect();
    let is_new = |site: &&Site| !record.regions.iter().any(|region| region.name == site.name);
    all.extend(sites.iter().filter(is_new).cloned());
    for site in sites {
        not_in_force(record, site, issued_at)?;
    }
    (next.regions, next.nodes) = (Vec::new(), Vec::new());
    for site in &all {
        found(&mut next, site);
    }
    let writers: Vec<NodeIndex> = next.regions.iter().map(|region| region.writer).collect();
    let reseat = |seat: &mut Seat| {
        if let Some(writer) = writers.get(usize::from(seat.region.0)) {
            seat.writer = *writer;
        }
    };
    for class in &mut next.classes {
        reseat(&mut class.primary);
        class
            .switches
            .iter_mut()
            .for_each(|switch| reseat(&mut switch.to));
        let legs = class
            .rotation
            .iter_mut()
            .flat_map(|rotation| &mut rotation.legs);
        legs.for_each(|leg| reseat(&mut leg.to));
    }
    let words = sites.iter().map(|site| words(record, site)).collect();
    checked(&next, words, limits)
}

/// Nodes refuse a record in which the term in force has another writer.
fn not_in_force(record: &Record, site: &Site, now: WallMs) -> Result<(), PlanError> {
    let is_same = |node: &(Id, String)| {
        let held = record
            .regions
            .iter()
            .find(|region| region.name == site.name);
        held.is_none_or(|held| record.node_name(held.writer) == node.0.as_str())
    };
    let is_primary = |class: &SlotClass| {
        let region = term_at(class, now).seat.region;
        record.region_name(region) == site.name.as_str()
    };
    if site.nodes.first().is_none_or(is_same) {
        return Ok(());
    }
    match record.classes.iter().find(|class| is_primary(class)) {
        None => Ok(()),
        Some(class) => Err(PlanError::WriterInForce {
            name: site.name.clone(),
            matching: class.matching.clone(),
        }),
    }
}

/// Adds a region at the end. The first of its nodes is the writer.
pub(super) fn found(record: &mut Record, site: &Site) {
    let region = RegionIndex(position(record.regions.len()));
    let writer = NodeIndex(position(record.nodes.len()));
    let nodes = site.nodes.iter().map(|(name, url)| Node {
        name: name.clone(),
        url: url.clone(),
        region,
    });
    record.nodes.extend(nodes);
    record.regions.push(Region {
        name: site.name.clone(),
        writer,
    });
}

/// A region as it is given, its writer first.
fn site_of(record: &Record, region: &Region) -> Site {
    let is_here = |node: &&Node| record.region_name(node.region) == region.name.as_str();
    let writer = record.node(region.writer).into_iter();
    let others = record.nodes.iter().filter(is_here);
    let others = others.filter(|node| record.find_node(&node.name) != Some(region.writer));
    let nodes = writer.chain(others);
    Site {
        name: region.name.clone(),
        nodes: nodes
            .map(|node| (node.name.clone(), node.url.clone()))
            .collect(),
    }
}

/// What people should know of a region before they sign it.
fn words(record: &Record, site: &Site) -> String {
    let nodes = site
        .nodes
        .iter()
        .map(|(name, url)| format!("{name} at {url}"));
    let nodes: Vec<String> = nodes.collect();
    let (name, nodes) = (&site.name, nodes.join(", "));
    let before = record.regions.iter().find(|region| region.name == *name);
    let writer = site
        .nodes
        .first()
        .map_or("nobody", |(name, _)| name.as_str());
    match before.map(|region| record.node_name(region.writer)) {
        None => format!("{name} is new: {nodes}; {writer} writes"),
        Some(held) if held == writer => format!("{name}: {nodes}; {writer} writes, as before"),
        Some(held) => format!("{name}: {nodes}; {writer} writes, in the place of {held}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::{HOUR, LIMITS, NOW, change, founding, id, site};
    use super::super::{Founding, lines, new, switch};
    use super::*;
    use crate::model::region::Matching;

    /// au is primary, and eu an hour from now.
    fn record() -> Record {
        let founding = Founding {
            sites: vec![site("au", &["au-1"]), site("eu", &["eu-1", "eu-2"])],
            ..founding("au")
        };
        let change = change("eu", NOW + HOUR, NOW);
        let first = new(&founding, &LIMITS).unwrap().record;
        switch(&first, &change, &LIMITS).unwrap().record
    }

    #[test]
    fn regions_are_replaced_by_name_and_terms_stay() {
        let mut moved = site("au", &["au-1"]);
        moved.nodes[0].1 = String::from("https://elsewhere:7070");
        let sites = [moved, site("eu", &["eu-2", "eu-1"]), site("us", &["us-1"])];
        let planned = settle(&record(), &sites, NOW, &LIMITS).unwrap();
        let record = &planned.record;
        let nodes: Vec<&str> = record.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(nodes, ["au-1", "eu-2", "eu-1", "us-1"]);
        assert_eq!(record.nodes[0].url, "https://elsewhere:7070");
        assert_eq!(record.node_name(record.regions[1].writer), "eu-2");
        assert_eq!(
            lines(record, NOW),
            ["everything else: au, epoch 1; then eu at 2027-01-15T09:00:00Z, epoch 2"]
        );
        let told = planned.words.join("\n");
        assert!(told.contains("eu-2 writes, in the place of eu-1"), "{told}");
    }

    #[test]
    fn what_is_not_named_stays() {
        let planned = settle(&record(), &[site("us", &["us-1"])], NOW, &LIMITS).unwrap();
        let names: Vec<&str> = planned
            .record
            .nodes
            .iter()
            .map(|node| node.name.as_str())
            .collect();
        assert_eq!(names, ["au-1", "eu-1", "eu-2", "us-1"]);
    }

    #[test]
    fn no_term_gets_a_second_writer() {
        let other = [site("au", &["au-2", "au-1"])];
        let error = settle(&record(), &other, NOW, &LIMITS).unwrap_err();
        let (name, matching) = (id("au"), Matching::default());
        assert_eq!(error, PlanError::WriterInForce { name, matching });
        let later = NOW + HOUR * 2;
        assert!(settle(&record(), &other, later, &LIMITS).is_ok());
    }
}
