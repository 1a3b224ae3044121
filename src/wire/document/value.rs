//! The types of feature and property values, and whether a value fits its type.
//!
//! Type and format are named together, because a STRING is three things: TEXT and YAML are strings,
//! JSON is any value but `null`. Never looks inside a YAML string: SDKs give it back as null when
//! they cannot read it, and go on.

use super::error::DocumentError;
use super::field::{Field, fields};
use crate::wire::json::slice::{self, Kind};

/// A type with its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    Boolean,
    Numeric,
    Text,
    Json,
    Yaml,
    SecretReference,
}

const FEATURE_TYPES: &[&str] = &["BOOLEAN", "NUMERIC", "STRING"];
const PROPERTY_TYPES: &[&str] = &["BOOLEAN", "NUMERIC", "STRING", "SECRETREF"];
const FORMATS: &[&str] = &["TEXT", "JSON", "YAML"];

/// What `value` of a rule says for "the item's own value".
pub(super) const DEFAULT: &str = "$default";

impl ValueType {
    /// The type of a feature.
    pub fn of_feature(kind: Field, format: Field) -> Result<ValueType, DocumentError> {
        ValueType::read(kind, format, FEATURE_TYPES)
    }

    /// The type of a property.
    pub fn of_property(kind: Field, format: Field) -> Result<ValueType, DocumentError> {
        ValueType::read(kind, format, PROPERTY_TYPES)
    }

    /// Python SDKs stop reading at an unknown type, Rust SDKs refuse the document. The format says
    /// something for STRING only; absent and `null` are TEXT.
    fn read(
        kind: Field,
        format: Field,
        known: &'static [&'static str],
    ) -> Result<ValueType, DocumentError> {
        let name = kind.string("Rust and Java")?;
        let format_name = format.optional_string()?;
        kind.one_of(&name, known)?;
        match (&*name, format_name) {
            ("BOOLEAN", _) => Ok(ValueType::Boolean),
            ("NUMERIC", _) => Ok(ValueType::Numeric),
            ("SECRETREF", _) => Ok(ValueType::SecretReference),
            (_, None) => Ok(ValueType::Text),
            (_, Some(name)) => {
                format.one_of(&name, FORMATS)?;
                Ok(match &*name {
                    "JSON" => ValueType::Json,
                    "YAML" => ValueType::Yaml,
                    _ => ValueType::Text,
                })
            }
        }
    }

    /// Whether the value of `field` is there and fits.
    pub fn check(self, field: Field, readers: &'static str) -> Result<(), DocumentError> {
        let piece = field.required(readers)?;
        let (fits, expected) = match (self, Kind::of(piece)) {
            (ValueType::Boolean, kind) => {
                (kind == Kind::Boolean, "true or false, as its type says")
            }
            (ValueType::Numeric, kind) => (kind == Kind::Number, "a number, as its type says"),
            (ValueType::Text | ValueType::Yaml, kind) => {
                (kind == Kind::String, "a string, as its type and format say")
            }
            (ValueType::Json, kind) => (kind != Kind::Null, "a JSON value other than null"),
            (ValueType::SecretReference, Kind::Object) => return secret_reference(field, piece),
            (ValueType::SecretReference, _) => (false, "an object that refers to a secret"),
        };
        match fits {
            true => Ok(()),
            false => Err(field.refuse_kind(expected, piece)),
        }
    }

    /// As [`ValueType::check`], but `"$default"` fits too.
    pub fn check_override(self, field: Field) -> Result<(), DocumentError> {
        let piece = field.required("Rust and Python")?;
        match is_default(piece) {
            true => Ok(()),
            false => self.check(field, ""),
        }
    }
}

/// Whether a value is the string `"$default"`.
pub(super) fn is_default(piece: &str) -> bool {
    Kind::of(piece) == Kind::String && slice::string(piece).as_deref() == Some(DEFAULT)
}

/// A reference names the secret and the instance that keeps it; never the secret itself.
fn secret_reference(field: Field, piece: &str) -> Result<(), DocumentError> {
    let place = field.place();
    let [id, instance] = fields(piece, &place, "value", ["id", "sm_instance_crn"])?;
    id.string("all")?;
    instance.string("all").map(drop)
}
