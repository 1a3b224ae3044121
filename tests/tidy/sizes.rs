//! How large things get: what no longer fits its room is two rooms.

use crate::source::Line;
use crate::{Rule, sample};

pub const RULES: &[Rule] = &[FILE, FUNCTION, WIDTH];

/// Lines of code in a file, without comments, blank lines and tests.
const FILE_LINES_MAX: usize = 400;
/// Lines from `fn` to the closing brace, all counted.
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

const FILE: Rule = Rule {
    name: "file size",
    samples: || {
        let short = "const A: u8 = 0;\n// why\n\n".repeat(FILE_LINES_MAX);
        let tests = "#[cfg(test)]\nmod tests {\n\n\nconst A: u8 = 0;\n\n}\n";
        vec![
            sample("src/long.rs", format!("{short}const B: u8 = 0;<--\n")),
            sample("src/short.rs", format!("{short}{tests}")),
            sample("seeds/demo.json", "1,\n".repeat(FILE_LINES_MAX + 1)),
        ]
    },
    check: |source| {
        if !source.path.ends_with(".rs") && !source.path.ends_with(".py") {
            return Vec::new();
        }
        let code = |line: &Line| {
            let only_comment = line.code.trim().is_empty() && !line.comment.is_empty();
            !line.is_test && !line.raw.trim().is_empty() && !only_comment
        };
        let numbered = source
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| code(line));
        let count = numbered.clone().count();
        let advice = format!(
            "{count} lines of code, at most {FILE_LINES_MAX}: split by noun, about 150 a file"
        );
        let first_over = numbered.map(|(number, _)| number).nth(FILE_LINES_MAX);
        first_over
            .map(|line| source.violation(line, advice))
            .into_iter()
            .collect()
    },
};

const FUNCTION: Rule = Rule {
    name: "function size",
    samples: || {
        let body = |lines| "    b();\n".repeat(lines);
        vec![
            sample(
                "src/a.rs",
                format!("fn a() {{<--\n{}}}\n", body(FUNCTION_LINES_MAX - 1)),
            ),
            sample(
                "src/a.rs",
                format!("fn a() {{\n{}}}\n", body(FUNCTION_LINES_MAX - 2)),
            ),
        ]
    },
    check: |source| {
        let long = source.functions().into_iter().filter_map(|range| {
            let first = source.tokens[range.start].line;
            let length = source.tokens[range.end - 1].line + 1 - first;
            (length > FUNCTION_LINES_MAX).then(|| {
                let advice = format!(
                    "`{}` has {length} lines, at most {FUNCTION_LINES_MAX}: name its parts",
                    source.token(range.start + 1)
                );
                source.violation(first, advice)
            })
        });
        long.collect()
    },
};

const WIDTH: Rule = Rule {
    name: "line width",
    samples: || {
        let line = "é".repeat(COLUMNS_MAX);
        let tests = format!("#[cfg(test)]\nmod tests {{\nlet a = \"{line}\";\n// {line}<--\n}}\n");
        vec![
            sample("src/a.rs", format!("{line}\n{line}é<--\n")),
            sample("src/b.rs", tests),
            sample("seeds/demo.json", format!("{line}é\n")),
            sample("tests/fuzz/corpus/a/b", format!("{line}é\n")),
        ]
    },
    check: |source| {
        // Documents have tables; seeds, lists of hashes and inputs are not read line by line.
        let prose = [".md", ".json", ".txt", ".minisig"];
        let is_input = source.path.starts_with("tests/fuzz/corpus/");
        if is_input || prose.iter().any(|ending| source.path.ends_with(ending)) {
            return Vec::new();
        }
        let wide = source
            .lines
            .iter()
            .enumerate()
            .filter_map(|(number, line)| {
                // A case of a table of raw bytes stays in one piece.
                let bytes = line.is_test && line.code.contains('"');
                let columns = if bytes { 0 } else { line.raw.chars().count() };
                (columns > COLUMNS_MAX).then(|| {
                    let advice =
                        format!("{columns} columns, at most {COLUMNS_MAX}: break the line");
                    source.violation(number, advice)
                })
            });
        wide.collect()
    },
};
