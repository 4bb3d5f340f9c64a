//! `turnwire.toml`, as the binary finds it. Who wins over whom is tested in `settings_tests.rs`.

use crate::world::{Server, World};

#[test]
fn a_wrong_file_is_2_with_all_mistakes() {
    let file = "[model.default]\n[models.default]\nkind = \"chat\"\nbase-url = \"x\"\n";
    let done = World::new().with_file("turnwire.toml", file).run(&["run", "hi"]);
    assert_eq!(done.code, Some(2));
    assert_eq!(
        done.stderr,
        "error: 3 mistakes in turnwire.toml\n  turnwire.toml:1: model: there is no such setting; did \
         you mean `models`?\n  turnwire.toml:3: models.default.kind: there is no kind `chat`; did you \
         mean `chat_completions`?\n  turnwire.toml:4: models.default.base-url: there is no such \
         setting; did you mean `base_url`?\nhint: repair it, or name another settings file with \
         --config FILE\n"
    );
}

/// No mistake without its line: also what is missing, what only one command needs, and what is not
/// even TOML.
#[test]
fn every_mistake_has_its_line() {
    let missing = "[models.default]\nkind = \"chat_completions\"\n";
    let unset = "\n[models.default]\nkind = \"openai_responses\"\napi_key_env = \"NOT_SET\"\n";
    let cases = [
        (missing, "run", "turnwire.toml:1: models.default.base_url: missing"),
        (missing, "serve", "turnwire.toml:1: models.default.base_url: missing"),
        (unset, "run", "turnwire.toml:4: models.default.api_key_env: "),
        (unset, "serve", "turnwire.toml:4: models.default.api_key_env: "),
        ("[server]\nlisten = 5\n", "run", "turnwire.toml:2: server.listen: "),
        (
            "[[mcp.on_request]]\n[[mcp.on_request]]\nurl = 1\n",
            "run",
            "turnwire.toml:3: mcp.on_request",
        ),
        ("[server]\n\nlisten = \n", "run", "turnwire.toml:3: not TOML: "),
        ("[server]\n[server]\n", "run", "turnwire.toml:2: server: it is there twice"),
    ];
    for (file, command, expected) in cases {
        let arguments: &[&str] = if command == "run" { &["run", "hi"] } else { &["serve"] };
        let done = World::new().with_file("turnwire.toml", file).run(arguments);
        assert_eq!(done.code, Some(2), "{file}: {}", done.stderr);
        assert!(done.stderr.contains(expected), "{file}: {}", done.stderr);
    }
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let done = World::new().run(&["run", "--config", "other.toml", "hi"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.starts_with("error: other.toml cannot be read: "), "{}", done.stderr);
}

#[test]
fn the_model_of_the_file_is_asked() {
    let server = Server::new();
    let file = format!(
        "[models.default]\nkind = \"chat_completions\"\nbase_url = \"{}\"\nmodel = \"tiny\"\n",
        server.url()
    );
    let world = World::new().with_file("other.toml", &file);
    let running = world.start(&["run", "--config", "other.toml", "hi"]);
    let mut question = server.question();
    assert_eq!(question.body["model"], "tiny");
    question.begin();
    question.say("Hello.");
    question.end();
    assert_eq!(running.finish().stdout, "Hello.\n");
}
