//! `turnwire.toml`, as the binary finds it. Who wins over whom is tested in `settings_tests.rs`.

use crate::world::{Server, World};

#[test]
fn a_wrong_file_is_2_with_all_mistakes() {
    let file = "[model.default]\n[models.default]\nkind = \"chat\"\nbase-url = \"x\"\n";
    let done = World::new().with_file("turnwire.toml", file).run(&["run", "hi"]);
    assert_eq!(done.code, Some(2));
    assert_eq!(
        done.stderr,
        "error: 3 mistakes in turnwire.toml\n  model: there is no such setting; did you mean \
         `models`?\n  models.default.base-url: there is no such setting; did you mean `base_url`?\n  \
         models.default.kind: there is no kind `chat`; did you mean `chat_completions`?\nhint: repair it, or name another settings file with --config FILE\n"
    );
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
