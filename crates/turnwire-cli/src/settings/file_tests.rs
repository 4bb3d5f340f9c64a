//! Errors about the file as a whole.

use crate::settings::{
    sections::RawSettings,
    testing::{check_keys, check_run_problem, run_settings},
};

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
            "  entirely: there is no such setting; there are `models`, `server`, `oidc`, `secrets`, `mcp_servers`, \
             `mcp`, `functions`, `web_search`, `egress`, `webhooks`, `embeddings`, `limits`, \
             `approvals`, `store`, `fanout`, `audit`, `quotas`",
            "  modles: there is no such setting; did you mean `models`?",
            "  server: not a table; write [server] above its settings",
            "  models.a.bas_url: there is no such setting; did you mean `base_url`?",
            "  models.a.model: invalid type: integer `3`, expected a string",
            "  models.a.kind: there is no kind `chatcompletions`; did you mean \
             `chat_completions`?",
            "  models.b.kind: missing; there are `chat_completions`, `openai_responses`, \
             `anthropic_messages`",
            "  models.b.base_url: `localhost:1234` is not an address; it should look like \
             http://localhost:11434/v1",
            "  models.c.kind: invalid type: integer `4`, expected a string",
            "  models.d: not a table; write [models.d] above its settings",
            "  models.scripted: this name is taken by the demo; give it another name",
            "  mcp_servers.docs: `command` or `url` is missing",
            "  web_search.provider: there is no provider `bing`; there are `searxng`, `brave`, `tavily`",
            "  limits.max_turns: invalid value: integer `0`, expected a nonzero u32",
            "  TURNWIRE_DEMO_PACE_MS: `fast` is not a number of milliseconds",
            "hint: repair it, or name another settings file with --config FILE",
        ],
    );
}

#[test]
fn a_file_that_is_not_toml_is_quoted() {
    let problem = run_settings("[models", &[], None).unwrap_err().to_string();
    assert!(problem.starts_with("turnwire.toml is not TOML\n"), "{problem}");
    assert!(problem.contains("line 1"), "{problem}");
}

#[test]
fn the_sections_are_known() {
    check_keys::<RawSettings>("");
}
