//! Where validation stands in a document.
//!
//! A place is a chain of borrowed steps on the stack: going down costs nothing, and the text of a
//! path is made only when something is refused there. Never outlives the walk that made it.

use crate::wire::json::Step;
use std::borrow::Cow;

/// A place in a document, as a step below its parent.
#[derive(Clone, Copy)]
pub(super) enum Place<'p> {
    Root,
    Key(&'p Place<'p>, &'p str),
    Index(&'p Place<'p>, usize),
}

impl<'p> Place<'p> {
    /// The place of a member of the object here.
    pub fn key(&'p self, key: &'p str) -> Place<'p> {
        Place::Key(self, key)
    }

    /// The place of an element of the array here.
    pub fn index(&'p self, index: usize) -> Place<'p> {
        Place::Index(self, index)
    }

    /// The path as it is shown: `$.environments[0].features[3]`.
    pub fn path(&self) -> String {
        match self {
            Place::Root => String::from("$"),
            Place::Key(parent, key) => parent.path_with(Step::Key(Cow::Borrowed(key))),
            Place::Index(parent, index) => parent.path_with(Step::Index(*index)),
        }
    }

    fn path_with(&self, step: Step<'_>) -> String {
        let mut path = self.path();
        step.render(&mut path);
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_print_as_paths() {
        let features = Place::Root.key("features");
        assert_eq!(features.index(3).key("name").path(), "$.features[3].name");
    }
}
