//! One source file, read the way the rules need it: code, comments and strings apart.
//!
//! Owns a lexer that knows just enough Rust: comments (nested too), strings (raw too), characters
//! against lifetimes. Rules about code never see what a string or a comment says, so that a rule
//! may name what it bans. What is test code is found out here as well.
//!
//! Never fails: text that is not Rust gives odd tokens, and the compiler says the rest.

use std::fmt;
use std::ops::Range;

/// A file of the project.
pub struct Source {
    /// From the top of the project, with `/`.
    pub path: String,
    pub lines: Vec<Line>,
    pub tokens: Vec<Token>,
}

/// One line, split. Strings are left in `code` as their quotes only.
#[derive(Clone, Default)]
pub struct Line {
    pub raw: String,
    pub code: String,
    pub comment: String,
    /// Inside `#[cfg(test)]`, or in a file that holds nothing but tests.
    pub is_test: bool,
}

/// A word, a number, `::`, or a single character of punctuation.
pub struct Token {
    /// Counts from 0.
    pub line: usize,
    pub text: String,
}

/// What a rule found: where, what, and what to write in its place.
pub struct Violation {
    pub path: String,
    /// Counts from 0; shown from 1.
    pub line: usize,
    pub advice: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}: {}",
            self.path,
            self.line + 1,
            self.advice
        )
    }
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let rust = path.ends_with(".rs");
        let mut lines = if rust { split(text) } else { plain(text) };
        let tokens = tokens(&lines);
        let all_test = path.ends_with("tests.rs") || path.contains("/tests/");
        for line in &mut lines {
            line.is_test = all_test;
        }
        for range in test_items(&tokens) {
            for line in &mut lines[tokens[range.start].line..=tokens[range.end - 1].line] {
                line.is_test = true;
            }
        }
        Source {
            path: path.to_string(),
            lines,
            tokens,
        }
    }

    /// In `src/`: what ships.
    pub fn ships(&self) -> bool {
        self.path.starts_with("src/")
    }

    /// The text of the token at `index`; empty past either end.
    pub fn token(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &token.text)
    }

    /// Whether the line of this token is test code.
    pub fn token_is_test(&self, index: usize) -> bool {
        self.lines[self.tokens[index].line].is_test
    }

    /// The comment on `line` and, if the line above is a comment of its own, that one too. Doc
    /// comments do not count: they tell readers, not reviewers.
    pub fn reason(&self, line: usize) -> String {
        let plain = |line: &Line| {
            let doc = line.comment.starts_with("///") || line.comment.starts_with("//!");
            if doc {
                String::new()
            } else {
                line.comment.clone()
            }
        };
        let mut reason = plain(&self.lines[line]);
        let above = line.checked_sub(1).map(|above| &self.lines[above]);
        if let Some(above) = above.filter(|above| above.code.trim().is_empty()) {
            reason.push_str(&plain(above));
        }
        reason
    }

    pub fn violation(&self, line: usize, advice: impl Into<String>) -> Violation {
        Violation {
            path: self.path.clone(),
            line,
            advice: advice.into(),
        }
    }

    /// From the word `fn` to its closing brace, for each function that has a body.
    pub fn functions(&self) -> Vec<Range<usize>> {
        let starts = (0..self.tokens.len())
            .filter(|&at| self.token(at) == "fn" && self.token(at + 1).starts_with(is_word_start));
        starts
            .map(|at| at..item_end(&self.tokens, at))
            .filter(|range| self.token(range.end - 1) == "}")
            .collect()
    }
}

/// Where the lexer is.
#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text,
    RawText { hashes: usize },
}

/// What the characters of one step are.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Text,
}

/// A file that is not Rust: no code, no comments, for the rules about text only.
fn plain(text: &str) -> Vec<Line> {
    text.lines()
        .map(|raw| Line {
            raw: raw.to_string(),
            ..Line::default()
        })
        .collect()
}

fn split(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = Vec::new();
    let mut line = Line::default();
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let before = at
            .checked_sub(1)
            .map(|before| chars[before])
            .filter(|&c| is_word(c));
        let (next, kind, length) = step(state, &chars[at..], before);
        for &c in &chars[at..at + length] {
            match (c, kind) {
                ('\n', _) => lines.push(std::mem::take(&mut line)),
                (_, Kind::Code) => line.code.push(c),
                (_, Kind::Comment) => line.comment.push(c),
                (_, Kind::Text) => {}
            }
            if c != '\n' {
                line.raw.push(c);
            }
        }
        at += length;
        state = next;
    }
    if !line.raw.is_empty() {
        lines.push(line);
    }
    lines
}

/// The next state, and what the characters on the way are and how many. `before` is the character
/// in front, if it belongs to a word: `br"` opens a raw string, `bar"` does not.
fn step(state: State, rest: &[char], before: Option<char>) -> (State, Kind, usize) {
    let next = rest.get(1).copied().unwrap_or('\n');
    match state {
        State::Code => match (rest[0], next) {
            ('/', '/') => (State::LineComment, Kind::Comment, 2),
            ('/', '*') => (State::BlockComment { depth: 1 }, Kind::Comment, 2),
            ('"', _) => (State::Text, Kind::Code, 1),
            ('r', '"' | '#') if before.is_none_or(|c| c == 'b' || c == 'c') => raw_start(rest),
            ('\'', '\\') => (State::Code, Kind::Text, escaped_character(rest)),
            ('\'', _) if rest.get(2) == Some(&'\'') => (State::Code, Kind::Text, 3),
            _ => (State::Code, Kind::Code, 1),
        },
        State::LineComment if rest[0] == '\n' => (State::Code, Kind::Code, 1),
        State::LineComment => (state, Kind::Comment, 1),
        State::BlockComment { depth } => match (rest[0], next) {
            ('*', '/') if depth == 1 => (State::Code, Kind::Comment, 2),
            ('*', '/') => (State::BlockComment { depth: depth - 1 }, Kind::Comment, 2),
            ('/', '*') => (State::BlockComment { depth: depth + 1 }, Kind::Comment, 2),
            _ => (state, Kind::Comment, 1),
        },
        State::Text => match rest[0] {
            '\\' => (state, Kind::Text, rest.len().min(2)),
            '"' => (State::Code, Kind::Code, 1),
            _ => (state, Kind::Text, 1),
        },
        State::RawText { hashes } => {
            let closing = rest
                .get(1..=hashes)
                .is_some_and(|tail| tail.iter().all(|&c| c == '#'));
            if rest[0] == '"' && closing {
                (State::Code, Kind::Code, 1 + hashes)
            } else {
                (state, Kind::Text, 1)
            }
        }
    }
}

fn raw_start(rest: &[char]) -> (State, Kind, usize) {
    let hashes = rest[1..].iter().take_while(|&&c| c == '#').count();
    match rest.get(1 + hashes) {
        Some('"') => (State::RawText { hashes }, Kind::Code, 2 + hashes),
        _ => (State::Code, Kind::Code, 1),
    }
}

/// Length of `'\n'`, `'\''` or `'\u{10ffff}'`.
fn escaped_character(rest: &[char]) -> usize {
    let closing = rest.iter().skip(3).take(9).position(|&c| c == '\'');
    closing.map_or(1, |closing| closing + 4)
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn tokens(lines: &[Line]) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (line, Line { code, .. }) in lines.iter().enumerate() {
        let mut rest = code.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token {
                line,
                text: rest[..length].to_string(),
            });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// The items that only tests compile, from their `#[cfg(test)]` on.
fn test_items(tokens: &[Token]) -> Vec<Range<usize>> {
    let marker = ["#", "[", "cfg", "(", "test", ")", "]"];
    let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    (0..texts.len())
        .filter(|&at| texts[at..].starts_with(&marker))
        .map(|at| at..item_end(tokens, at + marker.len()))
        .collect()
}

/// Where the item that starts at `at` is over: behind its `;`, or the brace that closes it.
fn item_end(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(token.text.as_str(), ";" | "}") {
            return index + 1;
        }
    }
    tokens.len()
}

/// Every path written in the file (`a::b::{c, d}` is two), with the line of its last word.
pub fn paths(source: &Source) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < source.tokens.len() {
        let starts = source.token(at).starts_with(is_word_start) && source.token(at + 1) == "::";
        at = if starts {
            branch(source, at, &[], &mut found)
        } else {
            at + 1
        };
    }
    found
}

/// Follows one path from `at`, whose first words are `prefix`; gives the index behind it.
fn branch(
    source: &Source,
    mut at: usize,
    prefix: &[String],
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        path.push(source.token(at).to_string());
        if source.token(at + 1) != "::" {
            break;
        }
        match source.token(at + 2) {
            "{" => {
                at += 3;
                while !matches!(source.token(at), "}" | "") {
                    at = branch(source, at, &path, found);
                    while !matches!(source.token(at), "," | "}" | "") {
                        at += 1;
                    }
                    at += usize::from(source.token(at) == ",");
                }
                return at + 1;
            }
            next if next == "*" || next.starts_with(is_word_start) => at += 2,
            _ => break,
        }
    }
    found.push((source.tokens[at].line, path));
    at + 1
}

#[test]
fn strings_and_comments_are_not_code() {
    let text = concat!(
        "let a = \"x /* \\\" \"; // one\n",
        "/* two /* \" */ */ let b = r#\"un\"wrap\n",
        "()\"#; let c = ('\"', '\\'', b'x', \"\\\\\");\n",
        "fn d<'a>(e: &'a str) {}",
    );
    let source = Source::new("src/a.rs", text);
    let code: Vec<&str> = source.lines.iter().map(|line| line.code.trim()).collect();
    let expected = [
        "let a = \"\";",
        "let b = r#\"",
        "\"#; let c = (, , b, \"\");",
        "fn d<'a>(e: &'a str) {}",
    ];
    assert_eq!(code, expected);
    assert_eq!(source.lines[0].comment, "// one");
    assert_eq!(source.lines[1].comment, "/* two /* \" */ */");
    assert_eq!(source.functions().len(), 1);
}

#[test]
fn only_test_items_are_test_code() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
    let source = Source::new("src/a.rs", text);
    let tests: Vec<bool> = source.lines.iter().map(|line| line.is_test).collect();
    assert_eq!(tests, [false, true, true, true, true, false]);
}

#[test]
fn grouped_paths_are_taken_apart() {
    let text = "use std::{fs::{self, File}, io};\nlet a = crate::net::log::b(c::<D>());\n";
    let source = Source::new("src/a.rs", text);
    let paths: Vec<String> = paths(&source)
        .into_iter()
        .map(|(_, path)| path.join("::"))
        .collect();
    let expected = [
        "std::fs::self",
        "std::fs::File",
        "std::io",
        "crate::net::log::b",
        "c",
    ]
    .map(String::from);
    assert_eq!(paths, expected);
}
