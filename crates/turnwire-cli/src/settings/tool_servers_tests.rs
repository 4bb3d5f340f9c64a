//! Valid and invalid settings of tool servers.

use super::*;
use crate::settings::testing::{check_mistakes, demo_settings};

/// Returns the server `s` with these lines.
fn server(lines: &str, variables: &[(&str, &str)]) -> McpServerOptions {
    let text = format!("[mcp_servers.s]\n{lines}");
    let mut servers = demo_settings(&text, variables).unwrap().tool_servers;
    servers.remove("s").unwrap()
}

fn check_mistake(lines: &str, expected: &[&str]) {
    let text = format!("[mcp_servers.s]\n{lines}");
    let expected: Vec<String> =
        expected.iter().map(|mistake| format!("mcp_servers.s{mistake}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_mistakes(&text, &[], &expected);
}

#[test]
fn a_program_has_arguments_an_environment_and_a_folder() {
    let lines = r#"
command = "npx"
args = ["-y", "${NOT_FILLED}"]
env = { PLAIN = "a", TOKEN = "b${ONE}c${TWO}", ODD = "$5 {}" }
cwd = "/tmp"
"#;
    let expected = McpTransport::Stdio {
        command: "npx".into(),
        args: vec!["-y".into(), "${NOT_FILLED}".into()],
        env: [("ODD", "$5 {}"), ("PLAIN", "a"), ("TOKEN", "b1c${ONE}")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        cwd: Some("/tmp".into()),
    };
    // Values of variables are not expanded again.
    let variables = [("ONE", "1"), ("TWO", "${ONE}")];
    assert_eq!(server(lines, &variables).transport, expected);
}

#[test]
fn an_address_has_a_token_and_headers() {
    let lines = r#"
url = "https://docs.example.com/mcp"
bearer_token_env_var = "TOKEN"
headers = { X-Team = "${TEAM}" }
"#;
    let expected = McpTransport::Http {
        url: "https://docs.example.com/mcp".into(),
        bearer_token: Some("t".into()),
        headers: [("X-Team".to_owned(), "blue".to_owned())].into(),
        oauth: None,
    };
    assert_eq!(server(lines, &[("TOKEN", "t"), ("TEAM", "blue")]).transport, expected);
}

/// A7: all forms of `require_approval`, and settings of individual tools.
#[test]
fn who_is_asked_about_what() {
    let approval = |form: &str| {
        let lines = format!("url = \"http://d\"\nrequire_approval = {form}");
        let options = server(&lines, &[]);
        (options.require_approval, options.exempt)
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(approval("'never'"), (AskBefore::Nothing, true));
    assert_eq!(approval("'always'"), (AskBefore::Everything, false));
    assert_eq!(approval("{ always = ['a'] }"), (AskBefore::Only(names(&["a"])), false));
    assert_eq!(approval("{ never = ['a'] }"), (AskBefore::AllBut(names(&["a"])), false));
    let both = "{ always = ['a'], never = { tool_names = ['a', 'b'] } }";
    assert_eq!(approval(both), (AskBefore::AllBut(names(&["b"])), false));
    let lines = r#"
url = "http://d"
tool_deadline_sec = 300
max_parallel_calls = 4
tools.a = { require_approval = "always", approval_expire_after_sec = 60 }
tools.b = { require_approval = "never", timeout_sec = 5, deadline_sec = 50, max_parallel_calls = 1 }
tools.c = { effect = "pure" }
"#;
    let options = server(lines, &[]);
    assert_eq!(options.tool_deadline, Some(Duration::from_mins(5)));
    assert_eq!(options.max_parallel_calls, Some(4));
    let a = McpToolOptions {
        ask: Some(true),
        approval_expiry: Some(Duration::from_mins(1)),
        ..McpToolOptions::default()
    };
    let b = McpToolOptions {
        ask: Some(false),
        timeout: Some(Duration::from_secs(5)),
        deadline: Some(Duration::from_secs(50)),
        max_parallel_calls: Some(1),
        ..McpToolOptions::default()
    };
    assert_eq!(options.tools, [("a".to_owned(), a), ("b".to_owned(), b)].into());
    check_mistake(
        "url = 'http://d'\nrequire_approval = { allways = ['a'], never = 3 }\n\
         tools.a = { require_approval = 'nope', deadline_sec = -1 }",
        &[
            ".require_approval.allways: there is no such setting; did you mean `always`?",
            ".require_approval.never: not a list of texts or a table",
            ".tools.a.deadline_sec: `-1` is not a time; give some seconds",
            ".tools.a.require_approval: there is no `nope`; there are `never`, `always`",
        ],
    );
}

#[test]
fn times_tools_effects_and_approvals_are_read() {
    let lines = r#"
url = "http://d/mcp"
startup_timeout_sec = 3
tool_timeout_sec = 0.5
enabled_tools = ["search", "publish"]
require_approval = ["publish"]
tools.search = { effect = "pure" }
tools.publish = { effect = "once" }
tools.save = { effect = "idempotent" }
"#;
    let expected = McpServerOptions {
        startup_timeout: Duration::from_secs(3),
        tool_timeout: Some(Duration::from_millis(500)),
        enabled_tools: Some(vec!["search".into(), "publish".into()]),
        effects: [
            ("search".to_owned(), Effect::Pure),
            ("publish".to_owned(), Effect::Once),
            ("save".to_owned(), Effect::Idempotent),
        ]
        .into(),
        require_approval: AskBefore::Only(vec!["publish".into()]),
        ..McpServerOptions::http("http://d/mcp")
    };
    assert_eq!(server(lines, &[]), expected);
    let approval = |word| server(&format!("url = \"http://d\"\n{word}"), &[]).require_approval;
    assert_eq!(approval("require_approval = \"always\""), AskBefore::Everything);
    assert_eq!(approval("require_approval = \"never\""), AskBefore::Nothing);
    assert_eq!(approval(""), AskBefore::Nothing);
}

#[test]
fn a_server_is_a_program_or_an_address() {
    check_mistake("", &[": `command` or `url` is missing"]);
    check_mistake("command = 3", &[".command: not a text; put it in quotes"]);
    check_mistake("command = \" \"", &[".command: empty"]);
    check_mistake(
        "command = \"a\"\nurl = \"http://d\"",
        &[": has `command` and `url`; keep one of them"],
    );
    check_mistake(
        "url = \"d\"",
        &[".url: `d` is not an address; it should look like https://docs.example.com/mcp"],
    );
    check_mistake(
        "url = \"http://d\"\nargs = []\nenv = {}\ncwd = \"/\"",
        &[
            ".args: only a server with `command` has it",
            ".env: only a server with `command` has it",
            ".cwd: only a server with `command` has it",
        ],
    );
    check_mistake(
        "command = \"a\"\nheaders = {}\nbearer_token_env_var = \"T\"",
        &[
            ".headers: only a server with `url` has it",
            ".bearer_token_env_var: only a server with `url` has it",
        ],
    );
}

#[test]
fn what_a_server_needs_must_be_set() {
    check_mistake(
        "url = \"http://d\"\nbearer_token_env_var = \"T\"\nheaders = { A = \"${B}\", C = \"${D\" }",
        &[
            ".headers.A: the environment variable `B` is not set",
            ".headers.C: there is a `${` without its `}`",
            ".bearer_token_env_var: the environment variable `T` is not set",
        ],
    );
    check_mistake(
        "command = \"a\"\nenv = { A = \"${}\", B = \"two\\nlines\" }",
        &[
            ".env.A: the environment variable `` is not set",
            ".env.B: the value must be on one line",
        ],
    );
}

#[test]
fn values_that_may_be_secret_are_not_quoted() {
    check_mistake(
        "command = \"a\"\nenv = { A = 12345 }",
        &[".env.A: not a text; put it in quotes"],
    );
    check_mistake(
        "url = \"http://d\"\nheaders = \"secret\"",
        &[".headers: not a table; write [mcp_servers.s.headers] above its settings"],
    );
    let shown = format!("{:?}", server("command = \"a\"\nenv = { A = \"secret\" }", &[]));
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn names_are_checked() {
    check_mistake(
        "url = \"http://d\"\nheaders = { \"A B\" = \"c\" }",
        &[".headers.\"A B\": this cannot be a name here"],
    );
    check_mistake(
        "command = \"a\"\nenv = { \"A=B\" = \"c\" }",
        &[".env.\"A=B\": this cannot be a name here"],
    );
    check_mistake(
        "url = \"http://d\"\nbearer_token_env_var = \"T\"\nheaders = { authorization = \"c\" }",
        &[
            ": has `bearer_token_env_var` and a header `Authorization`; keep one of them",
            ".bearer_token_env_var: the environment variable `T` is not set",
        ],
    );
    let long = "x".repeat(65);
    let rule = "a server's name has 1 to 64 letters, digits, `_` and `-`";
    check_mistakes(
        &format!(
            "[mcp_servers.\"a.b\"]\nurl = \"http://d\"\n[mcp_servers.{long}]\nurl = \"http://d\""
        ),
        &[],
        &[&format!("mcp_servers.\"a.b\": {rule}"), &format!("mcp_servers.{long}: {rule}")],
    );
    let longest = "x".repeat(64);
    assert!(demo_settings(&format!("[mcp_servers.{longest}]\nurl = \"http://d\""), &[]).is_ok());
    check_mistakes(
        "mcp_servers.s = 3",
        &[],
        &["mcp_servers.s: not a table; write [mcp_servers.s] above its settings"],
    );
}

#[test]
fn words_and_times_are_checked() {
    let url = "url = \"http://d\"\n";
    let check = |lines: &str, expected: &[&str]| check_mistake(&format!("{url}{lines}"), expected);
    check(
        "startup_timeout_sec = 0\ntool_timeout_sec = -1",
        &[
            ".startup_timeout_sec: `0` is not a time; give some seconds",
            ".tool_timeout_sec: `-1` is not a time; give some seconds",
        ],
    );
    check(
        "require_approval = \"allways\"",
        &[".require_approval: there is no `allways`; did you mean `always`?"],
    );
    check(
        "require_approval = true",
        &[".require_approval: not a text or a list of texts or a table"],
    );
    check(
        "tools.a = { effect = \"pur\" }\ntools.b = { effekt = \"pure\" }\ntools.c = \"pure\"",
        &[
            ".tools.a.effect: there is no effect `pur`; did you mean `pure`?",
            ".tools.b.effekt: there is no such setting; did you mean `effect`?",
            ".tools.c: not a table; write [mcp_servers.s.tools.c] above its settings",
        ],
    );
    check("comand = \"a\"", &[".comand: there is no such setting; did you mean `command`?"]);
}
