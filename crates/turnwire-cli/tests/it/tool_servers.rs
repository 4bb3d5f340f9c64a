//! `turnwire run` with the tool servers of the settings.

use crate::{
    toy::{Toy, path},
    world::{Server, World},
};

fn world(server: &Server, more: &str) -> World {
    let file = format!(
        "[models.default]\nkind = \"chat_completions\"\nbase_url = \"{}\"\n\
         [mcp_servers.toy]\ncommand = \"sh\"\nargs = [\"toy.sh\"]\n{more}",
        server.url()
    );
    World::new().with_file("turnwire.toml", &file).with("PATH", &path())
}

/// A8: what the settings name is started, offered, and ended with the run.
#[test]
fn the_tools_of_the_settings_are_offered_and_the_server_ends_with_the_run() {
    let server = Server::new();
    let world = world(&server, "");
    let toy = Toy::new(&world);
    let running = world.start(&["run", "Greet me."]);
    let mut alive = toy.watch();
    let mut question = server.question();
    assert_eq!(question.body["tools"][0]["function"]["name"], "greet");
    question.begin();
    question.say("Hello.");
    question.end();
    let done = running.finish();
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "Hello.\n"));
    assert_eq!(alive.all(), "goodbye");
}

/// C15: a call that a person has to allow is not carried out where there is nobody, and the run
/// does not wait for one.
#[test]
fn what_nobody_can_allow_is_denied() {
    is_denied("require_approval = \"always\"\n");
}

/// C15: the same for tools that the operator wants to be asked about by what they do.
#[test]
fn what_the_operator_wants_to_be_asked_about_is_denied() {
    is_denied("[approvals]\nonce = \"always\"\n");
}

#[track_caller]
fn is_denied(settings: &str) {
    let server = Server::new();
    let world = world(&server, settings);
    let toy = Toy::new(&world);
    let running = world.start(&["run", "Greet me."]);
    let mut alive = toy.watch();
    let mut question = server.question();
    question.begin();
    question.call("greet");
    let mut question = server.question();
    let messages = question.body["messages"].to_string();
    assert!(messages.contains("there is nobody to ask"), "{messages}");
    question.begin();
    question.say("Then not.");
    question.end();
    let done = running.finish();
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "Then not.\n"));
    assert_eq!(alive.all(), "goodbye");
}
