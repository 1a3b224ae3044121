//! Mutations of a corpus, each made from one seed.
//!
//! Half of them work on bytes, half on tokens and bracketed values, because most of what is broken
//! at random is refused at the door and tries nothing behind it. Deterministic: corpus, words and
//! seed give the input.

use fastrand::Rng;
use std::ops::Range;

const INPUT_BYTES_MAX: usize = 16 * 1024;
const STEPS_MAX: usize = 4;
const ODD_BYTES: &[u8] = b"\0\t\n\r \"%+,:;=\x7f\x80\xc3\xff";
const ODD_NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1.0",
    "65536",
    "4294967296",
    "9007199254740993",
    "18446744073709551616",
    "1e308",
    "1e309",
    "-0",
];

/// What inputs are made of.
pub struct Corpus {
    /// Those that were written for the target come first.
    pub inputs: Vec<Vec<u8>>,
    /// How many of them were.
    pub own: usize,
    /// Words of the target's language.
    pub words: &'static [&'static str],
}

/// Makes inputs from a corpus.
pub struct Mutator<'c> {
    corpus: &'c Corpus,
    random: Rng,
}

impl<'c> Mutator<'c> {
    pub fn new(corpus: &'c Corpus, seed: u64) -> Mutator<'c> {
        let random = Rng::with_seed(seed);
        Mutator { corpus, random }
    }

    /// The input of this seed.
    pub fn input(&mut self) -> Vec<u8> {
        let own = self.random.usize(..self.corpus.own);
        let mut input = match self.random.u8(..16) {
            0 => self.noise(256),
            1..=8 => self.corpus.inputs[own].clone(),
            _ => self.pick().to_vec(),
        };
        let by_bytes = self.random.bool();
        for _ in 0..self.random.usize(1..=STEPS_MAX) {
            match by_bytes {
                true => self.change_bytes(&mut input),
                false => self.change_tokens(&mut input),
            }
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn pick(&mut self) -> &'c [u8] {
        let inputs = &self.corpus.inputs;
        &inputs[self.random.usize(..inputs.len())]
    }

    fn noise(&mut self, length_max: usize) -> Vec<u8> {
        let length = self.random.usize(1..=length_max);
        (0..length).map(|_| self.random.u8(..)).collect()
    }

    /// A short run of `input`, perhaps empty.
    fn run(&mut self, input: &[u8]) -> Range<usize> {
        let start = self.random.usize(..=input.len());
        let length = self.random.usize(..=32).min(input.len() - start);
        start..start + length
    }

    fn change_bytes(&mut self, input: &mut Vec<u8>) {
        let at = self.random.usize(..=input.len());
        let odd = ODD_BYTES[self.random.usize(..ODD_BYTES.len())];
        match self.random.u8(..7) {
            0 if at < input.len() => input[at] ^= 1 << self.random.u8(..8),
            1 if at < input.len() => input[at] = odd,
            2 => input.insert(at, odd),
            3 => {
                let noise = self.noise(8);
                input.splice(at..at, noise);
            }
            4 => {
                let run = self.run(input);
                let copy = input[run].to_vec();
                input.splice(at..at, copy);
            }
            5 => {
                let other = self.pick();
                let from = self.random.usize(..=other.len());
                input.splice(at.., other[from..].iter().copied());
            }
            _ => {
                let run = self.run(input);
                input.drain(run);
            }
        }
    }

    fn change_tokens(&mut self, input: &mut Vec<u8>) {
        let Some(place) = self.value(input) else {
            return self.change_bytes(input);
        };
        let words = self.corpus.words;
        let with = match self.random.u8(..8) {
            0 | 1 if !words.is_empty() => words[self.random.usize(..words.len())].into(),
            2 => ODD_NUMBERS[self.random.usize(..ODD_NUMBERS.len())].into(),
            3 => Vec::new(),
            4 => {
                let value = &input[place.clone()];
                let comma: &[u8] = if self.random.bool() { b"," } else { b"" };
                [value, comma, value].concat()
            }
            5 => {
                let other = self.pick();
                self.like(input[place.start], other)
            }
            _ => self.like(input[place.start], input),
        };
        input.splice(place, with);
    }

    /// A value of `from` of the kind that begins with `first`; empty if there is none.
    fn like(&mut self, first: u8, from: &[u8]) -> Vec<u8> {
        let class = |byte: u8| match byte {
            b'0'..=b'9' | b'-' => b'0',
            b'a'..=b'z' | b'A'..=b'Z' => b'a',
            other => other,
        };
        let tokens = tokens(from);
        let alike = |at: &usize| class(from[tokens[*at].start]) == class(first);
        let alike: Vec<usize> = (0..tokens.len()).filter(alike).collect();
        match alike.is_empty() {
            true => Vec::new(),
            false => {
                from[value_at(from, &tokens, alike[self.random.usize(..alike.len())])].to_vec()
            }
        }
    }

    /// A token of `input`, or all between a bracket and its partner.
    fn value(&mut self, input: &[u8]) -> Option<Range<usize>> {
        let tokens = tokens(input);
        let first = self.random.usize(..tokens.len().max(1));
        (first < tokens.len()).then(|| value_at(input, &tokens, first))
    }
}

fn value_at(input: &[u8], tokens: &[Range<usize>], first: usize) -> Range<usize> {
    let mut depth = 0usize;
    for token in &tokens[first..] {
        match input[token.start] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return tokens[first].start..token.end;
        }
    }
    tokens[first].clone()
}

/// Strings, words, and every other byte by itself, but for blanks.
fn tokens(input: &[u8]) -> Vec<Range<usize>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(byte) = input.get(at) {
        let rest = &input[at + 1..];
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let length = match byte {
            b'"' => rest
                .iter()
                .position(|byte| *byte == b'"')
                .map_or(0, |end| end + 1),
            byte if is_word(byte) => rest.iter().take_while(|byte| is_word(byte)).count(),
            _ => 0,
        };
        if *byte != b' ' {
            tokens.push(at..at + 1 + length);
        }
        at += 1 + length;
    }
    tokens
}
