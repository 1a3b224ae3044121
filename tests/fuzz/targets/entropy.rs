//! Bytes as choices: how a target for operations reads its input.
//!
//! Every input is a run of choices, and one that has ended goes on with zeros. So each prefix of an
//! input is an input, and cutting one short makes a shorter run and not an error.

/// What is left of an input.
pub struct Entropy<'a>(&'a [u8]);

impl<'a> Entropy<'a> {
    pub fn new(input: &'a [u8]) -> Entropy<'a> {
        Entropy(input)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below `bound`, at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }

    /// The next bytes, at most `length` of them.
    pub fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
