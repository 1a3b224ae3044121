//! Walking the tree so that one pass finds every mistake.
//!
//! A [`Section`] is an object whose keys are asked for one by one; what nobody asked for is
//! unknown. A [`Place`] is a value with its JSON path. Whatever is wrong goes to [`Mistakes`] and
//! the walk goes on; `None` then means "reported", so that nothing is reported twice.

use super::error::{Concern, ConfigError, ConfigWarning, Problem};
use super::nearest::nearest;
use super::tree::Node;
use crate::model::casing;

/// All that was found so far.
#[derive(Default)]
pub struct Mistakes {
    pub errors: Vec<ConfigError>,
    pub warnings: Vec<ConfigWarning>,
}

impl Mistakes {
    /// Notes what keeps the configuration from being used.
    pub fn error(&mut self, path: &str, problem: Problem) {
        let path = path.to_owned();
        self.errors.push(ConfigError { path, problem });
    }

    /// Notes what may not be meant.
    pub fn warning(&mut self, path: &str, concern: Concern) {
        let path = path.to_owned();
        self.warnings.push(ConfigWarning { path, concern });
    }

    /// The value, or `None` after its problem was noted.
    pub fn keep<T>(&mut self, path: &str, value: Result<T, Problem>) -> Option<T> {
        value.map_err(|problem| self.error(path, problem)).ok()
    }
}

/// A value and where it stands.
pub struct Place<'t> {
    pub path: String,
    pub node: &'t Node,
}

impl<'t> Place<'t> {
    fn wrong_type(&self, expected: &'static str) -> Problem {
        let found = self.node.kind();
        Problem::WrongType { expected, found }
    }

    /// The text of the value.
    pub fn text(&self, mistakes: &mut Mistakes) -> Option<&'t str> {
        match self.node {
            Node::Text(text) => Some(text),
            _ => {
                mistakes.error(&self.path, self.wrong_type("text"));
                None
            }
        }
    }

    /// The text of the value, as what `read` makes of it.
    pub fn read<T>(
        &self,
        mistakes: &mut Mistakes,
        read: impl FnOnce(&str) -> Result<T, Problem>,
    ) -> Option<T> {
        let text = self.text(mistakes)?;
        mistakes.keep(&self.path, read(text))
    }

    /// A whole number within bounds.
    pub fn number(&self, mistakes: &mut Mistakes, from: usize, to: usize) -> Option<usize> {
        let number = match self.node {
            Node::Whole(number) => in_range(*number, from, to),
            _ => Err(self.wrong_type("a whole number")),
        };
        mistakes.keep(&self.path, number)
    }

    /// The entries of a list, at most `max`.
    pub fn list(&self, mistakes: &mut Mistakes, max: usize) -> Option<Vec<Place<'t>>> {
        let Node::List(entries) = self.node else {
            mistakes.error(&self.path, self.wrong_type("a list"));
            return None;
        };
        if entries.len() > max {
            mistakes.error(&self.path, Problem::TooMany { max });
            return None;
        }
        let place = |(index, node)| Place {
            path: format!("{}[{index}]", self.path),
            node,
        };
        Some(entries.iter().enumerate().map(place).collect())
    }

    /// The value itself, or the entries of a list in its place.
    pub fn one_or_list(self, mistakes: &mut Mistakes, max: usize) -> Option<Vec<Place<'t>>> {
        match self.node {
            Node::List(_) => self.list(mistakes, max),
            _ => Some(vec![self]),
        }
    }

    /// The keys of an object.
    pub fn section(self, mistakes: &mut Mistakes) -> Option<Section<'t>> {
        self.keys(mistakes, false)
    }

    /// The keys of an object, in any case of letters.
    pub fn section_of_any_case(self, mistakes: &mut Mistakes) -> Option<Section<'t>> {
        self.keys(mistakes, true)
    }

    fn keys(self, mistakes: &mut Mistakes, of_any_case: bool) -> Option<Section<'t>> {
        let Node::Map(entries) = self.node else {
            mistakes.error(&self.path, self.wrong_type("an object"));
            return None;
        };
        let mut section = Section {
            path: self.path,
            entries: Vec::new(),
            known: Vec::new(),
            of_any_case,
        };
        for (key, node) in entries {
            if section
                .entries
                .iter()
                .any(|(seen, _)| section.is(seen, key))
            {
                mistakes.error(&section.path_of(key), Problem::DuplicateKey);
            } else {
                section.entries.push((key, node));
            }
        }
        Some(section)
    }
}

/// An object whose keys are being asked for.
pub struct Section<'t> {
    pub path: String,
    /// What was not asked for yet.
    entries: Vec<(&'t str, &'t Node)>,
    known: Vec<&'static str>,
    of_any_case: bool,
}

impl<'t> Section<'t> {
    /// The path of one of its keys; what is no plain word is quoted and escaped.
    pub fn path_of(&self, key: &str) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        match !key.is_empty() && key.bytes().all(plain) {
            true => format!("{}.{key}", self.path),
            false => format!("{}[{key:?}]", self.path),
        }
    }

    fn is(&self, name: &str, key: &str) -> bool {
        name == key || (self.of_any_case && casing::same(name, key))
    }

    /// The value of `key`, which thereby is known.
    pub fn take(&mut self, key: &'static str) -> Option<Place<'t>> {
        self.known.push(key);
        let index = self
            .entries
            .iter()
            .position(|(name, _)| self.is(name, key))?;
        let (name, node) = self.entries.remove(index);
        let path = self.path_of(name);
        Some(Place { path, node })
    }

    /// The value of `key` in any case of letters.
    pub fn take_of_any_case(&mut self, key: &'static str) -> Option<Place<'t>> {
        let before = std::mem::replace(&mut self.of_any_case, true);
        let place = self.take(key);
        self.of_any_case = before;
        place
    }

    /// The value of `key`, which must be there.
    pub fn require(&mut self, key: &'static str, mistakes: &mut Mistakes) -> Option<Place<'t>> {
        let place = self.take(key);
        if place.is_none() {
            mistakes.error(&self.path_of(key), Problem::Missing);
        }
        place
    }

    /// All that nobody asked for: keys as they are written, and their values.
    pub fn places(self) -> Vec<(&'t str, Place<'t>)> {
        let place = |(name, node): &(&'t str, &'t Node)| {
            let path = self.path_of(name);
            (*name, Place { path, node })
        };
        self.entries.iter().map(place).collect()
    }

    /// Reports what nobody asked for.
    pub fn finish(self, mistakes: &mut Mistakes) {
        for (name, _) in &self.entries {
            let nearest = nearest(name, &self.known);
            mistakes.error(&self.path_of(name), Problem::UnknownKey { nearest });
        }
    }
}

/// `number`, if it lies within `from..=to`.
pub fn in_range(number: u64, from: usize, to: usize) -> Result<usize, Problem> {
    let fits = |number: &usize| (from..=to).contains(number);
    let problem = Problem::OutOfRange {
        from: from as u64,
        to: to as u64,
    };
    usize::try_from(number).ok().filter(fits).ok_or(problem)
}
