//! Experiments on features, as Node, JavaScript and Rust SDKs read them.
//!
//! Rust SDKs refuse the document when a part of an experiment is missing; Node SDKs look a group's
//! variation up without asking whether it is there. What the relay does not know about experiments
//! it leaves alone.

use super::error::{DocumentError, Problem, quoted};
use super::field::{Field, fields};
use super::value::ValueType;
use std::borrow::Cow;

const READERS: &str = "Rust and Node";
const TRAFFIC_TYPES: &[&str] = &["ALL", "NO_RULE", "RULE"];

/// Judges the `experiment` of a feature whose values are of `value_type`; absent and `null` are
/// fine.
pub(super) fn check(experiment: Field, value_type: ValueType) -> Result<(), DocumentError> {
    let Some(piece) = experiment.given() else {
        return Ok(());
    };
    let place = experiment.place();
    let names = [
        "experiment_id",
        "experiment_status",
        "iteration",
        "variations",
        "traffic_distribution",
    ];
    let [id, status, iteration, variations, traffic] =
        fields(piece, &place, experiment.key(), names)?;
    id.string(READERS)?;
    status.string(READERS)?;
    {
        let piece = iteration.required(READERS)?;
        let place = iteration.place();
        let names = ["iteration_id", "iteration_key"];
        for field in fields(piece, &place, iteration.key(), names)? {
            field.string(READERS)?;
        }
    }
    let ids = variation_ids(variations, value_type)?;
    distribution(traffic, &ids)
}

fn variation_ids<'a>(
    variations: Field<'a, '_>,
    value_type: ValueType,
) -> Result<Vec<Cow<'a, str>>, DocumentError> {
    let place = variations.place();
    let mut ids = Vec::new();
    for (index, variation) in variations.array(READERS)?.into_iter().enumerate() {
        let place = place.index(index);
        let names = ["variation_id", "variation_value"];
        let [id, value] = fields(variation, &place, variations.key(), names)?;
        ids.push(id.string(READERS)?);
        value_type.check(value, READERS)?;
    }
    Ok(ids)
}

fn distribution(traffic: Field, ids: &[Cow<'_, str>]) -> Result<(), DocumentError> {
    let piece = traffic.required(READERS)?;
    let place = traffic.place();
    let names = ["type", "control_group", "experimental_group"];
    let [kind, control, experimental] = fields(piece, &place, traffic.key(), names)?;
    kind.one_of(&kind.string(READERS)?, TRAFFIC_TYPES)?;
    group(control, control.required(READERS)?, None, ids)?;
    for (index, piece) in experimental.array(READERS)?.into_iter().enumerate() {
        group(experimental, piece, Some(index), ids)?;
    }
    Ok(())
}

fn group(
    field: Field,
    piece: &str,
    index: Option<usize>,
    ids: &[Cow<'_, str>],
) -> Result<(), DocumentError> {
    let outer = field.place();
    let place = match index {
        Some(index) => outer.index(index),
        None => outer,
    };
    let names = ["variation_id", "rollout_percentage"];
    let [id, percentage] = fields(piece, &place, field.key(), names)?;
    let variation = id.string(READERS)?;
    percentage.percentage(percentage.required(READERS)?)?;
    if ids.contains(&variation) {
        return Ok(());
    }
    let variation = quoted(&variation);
    Err(id.refuse(Problem::NoSuchVariation { variation }))
}
