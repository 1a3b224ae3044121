//! The commands that make records, on files: what they print, and how they end.

use crate::harness::site::Scratch;
use crate::nodes::{done, said, staffetta};
use std::fs;

/// A record of two regions that take turns.
fn document(scratch: &Scratch) -> String {
    let out = scratch.path("region.json").display().to_string();
    let words = [
        "region",
        "new",
        "--cluster",
        "plant-7",
        "--primary",
        "au",
        "--out",
        &out,
        "--region",
        "au=au-1@https://10.61.0.5:7070",
        "--region",
        "eu=eu-1@https://10.49.0.5:7070,eu-2@https://10.49.0.6:7070",
        "--turns",
        "00:00=au,12:00=eu",
    ];
    let told = done(&staffetta(&words));
    assert!(
        told.contains("each day (UTC): au at 00:00, eu at 12:00"),
        "{told}"
    );
    out
}

#[test]
fn a_record_is_made_changed_packed_and_told() {
    let scratch = Scratch::new("commands");
    let first = document(&scratch);
    let next = scratch.path("next.json").display().to_string();
    let at = "2999-07-01T06:00:00Z";
    let words = [
        "region", "switch", &first, "--slot", "line3/*", "--to", "eu", "--at",
    ];
    // Nobody plans so far ahead of a rotation: its terms up to then are too many.
    let far = staffetta(&[&words[..], &[at]].concat());
    assert_eq!(far.status.code(), Some(65), "{}", said(&far));
    let words = [
        "region",
        "sites",
        &first,
        "--region",
        "us=us-1@https://10.1.0.5:7070",
    ];
    let told = done(&staffetta(&[&words[..], &["--out", &next]].concat()));
    assert!(told.contains("us is new"), "{told}");
    let packed = scratch.path("record.json").display().to_string();
    done(&staffetta(&[
        "region",
        "pack",
        &next,
        "--unsigned",
        "--out",
        &packed,
    ]));
    let shown = done(&staffetta(&["region", "show", &packed]));
    for words in [
        "a record that nobody has signed",
        "cluster plant-7, version 2",
        "region eu: eu-1 https://10.49.0.5:7070 (writer), eu-2 https://10.49.0.6:7070",
        "and so on",
    ] {
        assert!(shown.contains(words), "{words} in\n{shown}");
    }
    // A document on standard output is nothing but the document.
    let printed = staffetta(&["region", "rotate", &packed, "--all", "--turns", "00:00=us"]);
    let text = String::from_utf8(printed.stdout.clone()).expect("text");
    let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(read["version"], 3, "{}", said(&printed));
}

#[test]
fn what_cannot_be_used_ends_with_65_and_a_reason() {
    let scratch = Scratch::new("refused");
    let first = document(&scratch);
    let broken = scratch.path("broken.json").display().to_string();
    let text = fs::read_to_string(&first).expect("the document");
    fs::write(
        &broken,
        text.replace("\"guard_ms\": 2000", "\"guard_ms\": 20"),
    )
    .expect("a file");
    let cases: [(&[&str], &str); 6] = [
        (&["region", "show", &broken], "must be at least max_skew_ms"),
        (&["region", "show", "nowhere.json"], "no such file"),
        (
            &["region", "pack", &broken, "--unsigned"],
            "must be at least max_skew_ms",
        ),
        (&["region", "import", &first], "a document, not a record"),
        (
            &[
                "region",
                "switch",
                &first,
                "--all",
                "--to",
                "jp",
                "--at",
                "2999-07-01T06:00:00Z",
            ],
            "no region is called jp",
        ),
        (
            &[
                "region",
                "switch",
                &first,
                "--all",
                "--to",
                "eu",
                "--at",
                "2020-07-01T06:00:00Z",
            ],
            "the time is over",
        ),
    ];
    for (words, why) in cases {
        let output = staffetta(words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(65), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
}
