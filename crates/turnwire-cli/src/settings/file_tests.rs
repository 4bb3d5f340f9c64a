//! Errors about the file as a whole.

use crate::settings::testing::{check_run_problem, run_settings};

#[test]
fn all_mistakes_are_told_at_once() {
    check_run_problem(
        r#"
modles = {}
server = 1
[models.a]
kind = "chatcompletions"
bas_url = "http://a/v1"
model = 3
[models.b]
base_url = "localhost:1234"
[models.c]
kind = 4
[models.scripted]
kind = "chat_completions"
[models]
d = "no table"
[mcp_servers.docs]
[web_search]
provider = "bing"
base_url = "http://localhost:8888"
[limits]
max_turns = 0
[entirely.else]
"#,
        &[("TURNWIRE_DEMO_PACE_MS", "fast")],
        None,
        &[
            "15 mistakes in turnwire.toml and the environment",
            "  modles: there is no such setting; did you mean `models`?",
            "  server: not a table; write [server] above its settings",
            "  models.a.kind: there is no kind `chatcompletions`; did you mean \
             `chat_completions`?",
            "  models.a.bas_url: there is no such setting; did you mean `base_url`?",
            "  models.a.model: not a text; put it in quotes",
            "  models.b.kind: missing; there are `chat_completions`, `openai_responses`, \
             `anthropic_messages`",
            "  models.b.base_url: `localhost:1234` is not an address; it should look like \
             http://localhost:11434/v1",
            "  models.c.kind: not a text; put it in quotes",
            "  models.scripted: this name is taken by the demo; give it another name",
            "  models.d: not a table; write [models.d] above its settings",
            "  mcp_servers.docs: `command` or `url` is missing",
            "  web_search.provider: there is no provider `bing`; there are `searxng`, `brave`, `tavily`",
            "  limits.max_turns: 0 is not a whole number from 1 on",
            "  entirely: there is no such setting; there are `server`, `oidc`, `secrets`, \
             `encryption`, `models`, `mcp_servers`, `mcp`, `functions`, `approvals`, `web_search`, \
             `egress`, `webhooks`, `embeddings`, `store`, `fanout`, `audit`, `quotas`, `limits`",
            "  TURNWIRE_DEMO_PACE_MS: `fast` is not a number of milliseconds",
            "hint: repair it, or name another settings file with --config FILE",
        ],
    );
}

/// A line that is not TOML may have a key in it, so it is not quoted.
#[test]
fn all_lines_that_are_not_toml_are_told_and_none_is_quoted() {
    let text = "[server\nlisten = \"127.0.0.1:1\"\n\n[models.a]\nkind = \nsk-canary = [\n";
    let problem = run_settings(text, &[], None).unwrap_err();
    let told = problem.to_string();
    assert!(problem.details.len() > 1, "{told}");
    assert!(problem.details[0].starts_with("turnwire.toml:1: not TOML: "), "{told}");
    assert!(problem.details[1].starts_with("turnwire.toml:5: not TOML: "), "{told}");
    assert!(!told.contains("canary"), "{told}");
}

/// A19: of very many mistakes the first ones are told, each with its line, and that there are more.
#[test]
fn of_very_many_mistakes_the_first_ones_are_told() {
    let unknown = |n_lines: usize| {
        let lines: Vec<String> = (0..n_lines).map(|n| format!("a{n:04} = 1")).collect();
        run_settings(&format!("[server]\n{}", lines.join("\n")), &[], None).unwrap_err()
    };
    assert_eq!(unknown(100).message, "100 mistakes in turnwire.toml");
    let problem = unknown(5_000);
    assert_eq!(problem.message, "more than 100 mistakes in turnwire.toml");
    let lines: Vec<Option<usize>> = problem.mistakes.iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, (2..102).map(Some).collect::<Vec<_>>());
}
