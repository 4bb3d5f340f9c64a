use turnwire_contract::{BlobId, Image, ToolOutput, tool::BlobRef};

use super::*;
use crate::story::{failed, succeeded};

#[track_caller]
fn check_summary(outcome: &ToolOutcome, on_one_line: &str, bracketed: &str) {
    assert_eq!(result_summary(outcome), on_one_line);
    assert_eq!(bracketed_result(outcome), bracketed);
}

#[track_caller]
fn check_label(telling: &[&str], arguments: &str, expected: &str) {
    let telling: Vec<String> = telling.iter().map(|&key| key.to_owned()).collect();
    let mut partial = PartialJson::new();
    partial.push(arguments);
    assert_eq!(label(&telling, &partial), expected);
}

fn with_images(text: &str, n_images: usize) -> ToolOutcome {
    let image = Image { media_type: "image/png".to_owned(), base64: "AA==".to_owned() };
    let images = vec![image; n_images];
    ToolOutcome::Succeeded { output: ToolOutput { images, ..ToolOutput::text(text) } }
}

/// R16.
#[test]
fn up_to_100_characters_stay_whole() {
    let text = "é".repeat(100);
    check_summary(&succeeded(&text), &text, &text);
    let longer = "é".repeat(101);
    let cut = format!("{text}...");
    check_summary(&succeeded(&longer), &cut, &cut);
}

/// R16.
#[test]
fn a_summary_is_on_one_line_and_s0_keeps_line_breaks() {
    check_summary(&succeeded(" a\n\n b\tc \r\n"), "a b c", " a\n\n b\tc \r\n");
}

/// R16.
#[test]
fn white_space_does_not_count() {
    let spaced = format!("{}\n\n\n  {}  ", "a".repeat(50), "b".repeat(49));
    let line = format!("{} {}", "a".repeat(50), "b".repeat(49));
    assert_eq!(result_summary(&succeeded(&spaced)), line);
    assert_eq!(result_summary(&succeeded(&(spaced + "c"))), format!("{line}..."));
}

/// R16.
#[test]
fn a_cut_between_two_words_is_a_cut() {
    let hundred = "a".repeat(100);
    assert_eq!(result_summary(&succeeded(&format!("{hundred} b"))), format!("{hundred}..."));
    let with_space = format!("{} ...", "a".repeat(99));
    assert_eq!(result_summary(&succeeded(&format!("{} b", "a".repeat(99)))), with_space);
}

/// R16.
#[test]
fn a_failure_begins_with_error() {
    check_summary(&failed("no disk"), "Error: no disk", "Error: no disk");
    let long = failed(&"x".repeat(94));
    let cut = format!("Error: {}...", "x".repeat(93));
    check_summary(&long, &cut, &cut);
    check_summary(&failed(&"x".repeat(93)), cut.trim_end_matches('.'), cut.trim_end_matches('.'));
    check_summary(&failed("a\nb"), "Error: a b", "Error: a\nb");
}

/// S0-12: every outcome has a summary.
#[test]
fn every_ending_has_a_summary() {
    let message = || "there is no tool `x`".to_owned();
    for (outcome, expected) in [
        (ToolOutcome::TimedOut { after_ms: 1500 }, "Error: timed out after 1.5 s"),
        (ToolOutcome::Cancelled, "Error: cancelled"),
        (ToolOutcome::Denied { reason: String::new() }, "Error: denied by the user"),
        (
            ToolOutcome::InvalidArguments { message: "`a` is missing".to_owned() },
            "Error: invalid arguments: `a` is missing",
        ),
        (ToolOutcome::NotFound { message: message() }, "Error: there is no tool `x`"),
        (ToolOutcome::Skipped { reason: "stop".to_owned() }, "Error: not carried out: stop"),
        (ToolOutcome::OutcomeUnknown { message: "gone".to_owned() }, "Error: gone"),
    ] {
        check_summary(&outcome, expected, expected);
    }
}

/// R19: L44: a result that has only an image is not "no output".
#[test]
fn a_result_without_words_still_says_something() {
    check_summary(&succeeded(""), "(no output)", "");
    check_summary(&succeeded(" \n"), "(no output)", " \n");
    check_summary(&with_images("", 1), "(1 image)", "(1 image)");
    check_summary(&with_images("", 2), "(2 images)", "(2 images)");
    check_summary(&with_images("a chart", 2), "a chart", "a chart");
}

/// R17.
#[test]
fn a_result_kept_elsewhere_says_that_there_is_more() {
    let rest = Some(BlobRef { blob: BlobId::new("blob_1"), bytes: 1 << 30 });
    let output = ToolOutput { rest, ..ToolOutput::text("begin") };
    check_summary(&ToolOutcome::Succeeded { output }, "begin...", "begin...");
}

#[test]
fn what_a_terminal_would_obey_is_taken_out() {
    check_summary(&succeeded("\u{1b}[31mred\u{1b}[0m\0"), "red", "red");
    check_summary(&failed("\u{1b}[31mred"), "Error: red", "Error: red");
    check_label(&[], r#"{"query":"\u001b[31mred"}"#, "red");
}

/// S4-11: the label follows the arguments while they are generated.
#[test]
fn the_telling_argument_is_shown_as_far_as_it_is_written() {
    check_label(&[], r#"{"query": "ru"#, "ru");
    check_label(&[], r#"{"query": "rust\u00e"#, "rust");
    check_label(&[], r#"{"n": 5, "query": "rust"}"#, "rust");
}

#[test]
fn the_tools_own_telling_arguments_come_first() {
    check_label(&["b", "a"], r#"{"query":"q","a":"x","b":"y"}"#, "y");
    check_label(&["b", "a"], r#"{"query":"q","a":"x"}"#, "x");
    check_label(&["b", "a"], r#"{"query":"q"}"#, "q");
    check_label(&["b"], r#"{"query":"q","b":""}"#, "q");
    check_label(&["b"], r#"{"query":"q","b":null}"#, "q");
    check_label(&["b"], r#"{"query":"q","b":["x"]}"#, "q");
    check_label(&["b"], r#"{"b":0}"#, "0");
    check_label(&["b"], r#"{"b":false}"#, "false");
}

#[test]
fn the_usual_telling_arguments_have_an_order() {
    let keys = ["query", "path", "file_path", "command", "url", "name", "id"];
    for first in 0..keys.len() {
        let entries: Vec<String> =
            keys[first..].iter().rev().map(|key| format!(r#""{key}":"the {key}""#)).collect();
        check_label(&[], &format!("{{{}}}", entries.join(",")), &format!("the {}", keys[first]));
    }
}

#[test]
fn without_a_telling_argument_all_scalars_are_shown() {
    check_label(&[], r#"{"a":5,"b":4}"#, "a=5 b=4");
    check_label(&[], r#"{"a":5,"b":[1],"c":true,"d":null,"e":"x  y","f":""}"#, "a=5 c=true e=x y");
    check_label(&[], r#"{"a":5,"b":-"#, "a=5");
    let many: Vec<String> = (0..40).map(|n| format!(r#""{n}":1"#)).collect();
    let shown = "0=1 1=1 2=1 3=1 4=1 5=1 6=1 7=1 8=1 9=1 10=1 11=1 12=1 13=1…";
    check_label(&[], &format!("{{{}}}", many.join(",")), shown);
}

#[test]
fn a_label_has_at_most_60_characters() {
    let sixty = "é".repeat(60);
    check_label(&[], &format!(r#"{{"query":"{sixty}"}}"#), &sixty);
    check_label(&[], &format!(r#"{{"query":"{sixty}é"}}"#), &format!("{}…", "é".repeat(59)));
    check_label(&[], r#"{"query":"a\n  b"}"#, "a b");
    let (key, shown) = ("k".repeat(200), "k".repeat(59));
    check_label(&[], &format!(r#"{{"{key}":1}}"#), &format!("{shown}…"));
}

#[test]
fn without_any_scalar_the_last_30_characters_are_shown() {
    check_label(&[], "", "");
    check_label(&[], r#"{"na"#, r#"{"na"#);
    check_label(&[], "{\n\"items\": [1", r#"{\n"items": [1"#);
    check_label(
        &[],
        &format!("{{\"items\": [\"{}é", "x".repeat(50)),
        &format!("{}é", "x".repeat(29)),
    );
    check_label(&[], r#"{"items":[1]}"#, "");
    check_label(&[], "{}", "");
}

#[test]
fn only_the_beginning_of_a_big_argument_is_looked_at() {
    let hidden = format!(r#"{{"query":"{}late","path":"p"}}"#, " ".repeat(240));
    check_label(&[], &hidden, "p");
    let seen = format!(r#"{{"query":"{}late","path":"p"}}"#, " ".repeat(236));
    check_label(&[], &seen, "late");
}

/// R17.
#[test]
fn wire_text_is_cut_between_characters() {
    let check = |text, max_bytes, expected, truncated| {
        assert_eq!(wire_text(text, max_bytes), WireText { text: expected, truncated });
    };
    check("abc", 3, "abc", false);
    check("abcd", 3, "abc", true);
    check("aé", 2, "a", true);
    check("aé", 3, "aé", false);
    check("", 0, "", false);
    check("é", 0, "", true);
    assert_eq!(WIRE_BYTES, 32_768);
}

#[test]
fn first_characters_are_counted_not_measured() {
    assert_eq!(first_chars("éé", 2), ("éé", false));
    assert_eq!(first_chars("ééx", 2), ("éé", true));
    assert_eq!(first_chars("x", 0), ("", true));
    assert_eq!(first_chars("", 0), ("", false));
}

#[test]
fn a_big_result_is_read_at_its_call() {
    let reference = super::result_ref("run_1", "call_1");
    assert_eq!(reference, "/v1/runs/run_1/calls/call_1/result");
}
