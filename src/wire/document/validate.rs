//! What every known SDK demands of the items of one slot.
//!
//! The readers named in a check are those that fail without it. Rust SDKs deserialise the whole
//! document into structs, so one missing key or wrong kind costs them everything; Node SDKs walk
//! `segment_rules` without asking and the process dies; Python and Java SDKs index segment rules by
//! `order` from 1; JavaScript SDKs want all three arrays. Unknown keys are fine everywhere.
//!
//! Nothing is judged that no SDK reads, and nothing outside of the slot.

use super::error::{DocumentError, ItemKind, Problem, quoted};
use super::field::{Field, fields};
use super::place::Place;
use super::value::{ValueType, is_default};
use super::{experiment, rollout};
use crate::wire::json::slice;
use std::borrow::Cow;

const OPERATORS: &[&str] = &[
    "is",
    "isNot",
    "contains",
    "notContains",
    "startsWith",
    "notStartsWith",
    "endsWith",
    "notEndsWith",
    "greaterThan",
    "greaterThanEquals",
    "lesserThan",
    "lesserThanEquals",
];

/// What a valid item brings along.
pub(super) struct Valid<'a> {
    pub id: Cow<'a, str>,
    /// Segments that its rules name, with repetitions.
    pub segments: Vec<Cow<'a, str>>,
    /// Objects of the item (itself, or rules) that lack `rollout_percentage`.
    pub without_percentage: Vec<&'a str>,
}

/// A feature or property cut into its fields, each item in one go: most of the time goes there.
pub(super) struct Item<'a, 'p> {
    piece: &'a str,
    pub id: Field<'a, 'p>,
    pub collections: Field<'a, 'p>,
    judged: Judged<'a, 'p>,
}

#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
enum Judged<'a, 'p> {
    Feature([Field<'a, 'p>; 13]),
    Property([Field<'a, 'p>; 6]),
}

const FEATURE_KEYS: [&str; 15] = [
    "feature_id",
    "collections",
    "name",
    "type",
    "format",
    "enabled_value",
    "disabled_value",
    "enabled",
    "rollout_percentage",
    "segment_rules",
    "experiment",
    rollout::KEYS[0],
    rollout::KEYS[1],
    rollout::KEYS[2],
    rollout::KEYS[3],
];

const PROPERTY_KEYS: [&str; 8] = [
    "property_id",
    "collections",
    "name",
    "type",
    "format",
    "value",
    "segment_rules",
    "tags",
];

const RULE_KEYS: [&str; 9] = [
    "rules",
    "value",
    "order",
    "rollout_percentage",
    "rule_id",
    rollout::KEYS[0],
    rollout::KEYS[1],
    rollout::KEYS[2],
    rollout::KEYS[3],
];

impl<'a, 'p> Item<'a, 'p> {
    /// Cuts a feature or a property; refused when it is no object.
    pub fn cut(
        kind: ItemKind,
        piece: &'a str,
        place: &'p Place<'p>,
    ) -> Result<Item<'a, 'p>, DocumentError> {
        let (id, collections, judged) = match kind {
            ItemKind::Feature => {
                let [id, collections, rest @ ..] = fields(piece, place, "feature", FEATURE_KEYS)?;
                (id, collections, Judged::Feature(rest))
            }
            _ => {
                let [id, collections, rest @ ..] = fields(piece, place, "property", PROPERTY_KEYS)?;
                (id, collections, Judged::Property(rest))
            }
        };
        Ok(Item {
            piece,
            id,
            collections,
            judged,
        })
    }

    /// Judges the item; `is_segment` knows the segments of the document.
    pub fn judge(self, is_segment: &dyn Fn(&str) -> bool) -> Result<Valid<'a>, DocumentError> {
        let mut valid = Valid {
            id: self.id.id("all")?,
            segments: Vec::new(),
            without_percentage: Vec::new(),
        };
        match self.judged {
            Judged::Feature(fields) => feature(self.piece, fields, is_segment, &mut valid)?,
            Judged::Property(fields) => property(fields, is_segment, &mut valid)?,
        }
        Ok(valid)
    }
}

fn feature<'a>(
    piece: &'a str,
    fields: [Field<'a, '_>; 13],
    is_segment: &dyn Fn(&str) -> bool,
    valid: &mut Valid<'a>,
) -> Result<(), DocumentError> {
    let [
        name,
        kind,
        format,
        on,
        off,
        enabled,
        percentage,
        rules,
        experiment,
        rollout @ ..,
    ] = fields;
    name.string("Rust and Java")?;
    let value_type = ValueType::of_feature(kind, format)?;
    value_type.check(on, "Rust and Java")?;
    value_type.check(off, "Rust and Java")?;
    enabled.boolean("Rust and Java")?;
    match percentage.is_absent() {
        true => valid.without_percentage.push(piece),
        false => percentage.percentage(percentage.required("Rust")?)?,
    }
    rollout::check(rollout)?;
    segment_rules(rules, value_type, ItemKind::Feature, is_segment, valid)?;
    experiment::check(experiment, value_type)
}

fn property<'a>(
    fields: [Field<'a, '_>; 6],
    is_segment: &dyn Fn(&str) -> bool,
    valid: &mut Valid<'a>,
) -> Result<(), DocumentError> {
    let [name, kind, format, value, rules, tags] = fields;
    name.string("Rust and Java")?;
    let value_type = ValueType::of_property(kind, format)?;
    value_type.check(value, "Rust and Java")?;
    tags.optional_string()?;
    segment_rules(rules, value_type, ItemKind::Property, is_segment, valid)
}

fn segment_rules<'a>(
    rules: Field<'a, '_>,
    value_type: ValueType,
    kind: ItemKind,
    is_segment: &dyn Fn(&str) -> bool,
    valid: &mut Valid<'a>,
) -> Result<(), DocumentError> {
    let pieces = rules.array("Node, Java, JavaScript and Rust")?;
    let count = pieces.len();
    let mut seen = vec![false; count];
    let place = rules.place();
    for (index, piece) in pieces.into_iter().enumerate() {
        let place = place.index(index);
        let [targets, value, order, percentage, rule_id, rollout @ ..] =
            fields(piece, &place, "segment_rules", RULE_KEYS)?;
        segments_of(targets, is_segment, &mut valid.segments)?;
        value_type.check_override(value)?;
        rule_id.optional_string()?;
        let position = slice::integer(order.required("Rust and Python")?);
        let slot = position.and_then(|position| seen.get_mut((position as usize).wrapping_sub(1)));
        match slot {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(order.refuse(Problem::RuleOrder { count })),
        }
        if kind == ItemKind::Feature {
            rollout::check(rollout)?;
            match percentage.is_absent() {
                true => valid.without_percentage.push(piece),
                false => rule_percentage(percentage)?,
            }
        }
    }
    Ok(())
}

fn rule_percentage(percentage: Field) -> Result<(), DocumentError> {
    let piece = percentage.required("Rust")?;
    match is_default(piece) {
        true => Ok(()),
        false => {
            let expected = "an integer from 0 to 100 or \"$default\"";
            percentage.integer(piece, 0..=100, expected).map(drop)
        }
    }
}

fn segments_of<'a>(
    targets: Field<'a, '_>,
    is_segment: &dyn Fn(&str) -> bool,
    segments: &mut Vec<Cow<'a, str>>,
) -> Result<(), DocumentError> {
    let place = targets.place();
    let readers = "Node and Rust";
    for (index, piece) in targets.array(readers)?.into_iter().enumerate() {
        let place = place.index(index);
        let [names] = fields(piece, &place, "rules", ["segments"])?;
        for segment in names
            .strings(readers)?
            .into_iter()
            .filter_map(slice::string)
        {
            if !is_segment(&segment) {
                let segment = quoted(&segment);
                return Err(names.refuse(Problem::NoSuchSegment { segment }));
            }
            segments.push(segment);
        }
    }
    Ok(())
}

/// Judges a segment that some rule of the slot names.
pub(super) fn segment(piece: &str, place: &Place<'_>) -> Result<(), DocumentError> {
    let names = ["segment_id", "name", "description", "tags", "rules"];
    let [id, name, description, tags, rules] = fields(piece, place, "segment", names)?;
    id.id("all")?;
    name.string("Rust")?;
    description.optional_string()?;
    tags.optional_string()?;
    let place = rules.place();
    for (index, piece) in rules.array("Rust and Node")?.into_iter().enumerate() {
        let place = place.index(index);
        let names = ["attribute_name", "operator", "values"];
        let [attribute, operator, values] = fields(piece, &place, "rules", names)?;
        attribute.string("Rust")?;
        operator.one_of(&operator.string("Rust")?, OPERATORS)?;
        values.strings("Rust and Node")?;
    }
    Ok(())
}
