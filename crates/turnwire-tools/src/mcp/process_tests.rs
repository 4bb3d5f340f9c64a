//! What is logged of a server's stderr.

use std::collections::BTreeMap;

use super::*;
use crate::mcp::options::{McpServerOptions, McpTransport};

const SECRET: &str = "canary-0123456789-canary";

fn redactor() -> Redactor {
    let mut options = McpServerOptions::stdio("x", [] as [&str; 0]);
    if let McpTransport::Stdio { env, .. } = &mut options.transport {
        *env = BTreeMap::from([("API_TOKEN".to_owned(), SECRET.to_owned())]);
    }
    Redactor::new(&options, None)
}

/// A12: wherever a piece ends, no part of a secret is logged.
#[test]
fn a_secret_in_two_pieces_is_replaced() {
    let redactor = redactor();
    let text = format!("the token is {SECRET}.\nand {SECRET}\n");
    for at in 0..text.len() {
        let mut lines = StderrLines { redactor: &redactor, pending: Vec::new() };
        let (first, second) = text.as_bytes().split_at(at);
        let logged = [lines.push(first), lines.push(second), lines.end()].concat();
        assert_eq!(logged, ["the token is [secret].", "and [secret]"], "cut at {at}");
    }
}

/// A12: a line without an end is logged in parts, and no part ends within a secret.
#[test]
fn a_long_line_is_cut_beside_secrets() {
    let redactor = redactor();
    for n in 0..60 {
        let text = format!("{}{SECRET}", "x".repeat(MAX_LINE_BYTES + n)).repeat(3);
        let mut lines = StderrLines { redactor: &redactor, pending: Vec::new() };
        let mut logged: Vec<String> =
            text.as_bytes().chunks(100).flat_map(|piece| lines.push(piece)).collect();
        assert!(logged.len() > 1, "nothing waits for ever");
        logged.extend(lines.end());
        let expected = format!("{}[secret]", "x".repeat(MAX_LINE_BYTES + n)).repeat(3);
        assert_eq!(logged.concat(), expected);
    }
}

/// A12: where the limit ends the log, the beginning of a secret is left out.
#[test]
fn a_cut_log_does_not_end_within_a_secret() {
    let redactor = redactor();
    let mut lines = StderrLines { redactor: &redactor, pending: Vec::new() };
    lines.push(format!("{} {}", "x".repeat(40), &SECRET[..20]).as_bytes());
    let logged = lines.cut().concat();
    assert!(!logged.contains("canary") && logged.starts_with("xxx"), "{logged}");
}
