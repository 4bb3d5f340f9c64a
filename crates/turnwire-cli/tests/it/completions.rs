//! `turnwire completions` and `turnwire man`.

use crate::world::World;

/// Shells can read their scripts, and the scripts know the commands.
#[test]
fn completions_are_scripts_of_their_shells() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let done = world.run(&["completions", shell]);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["follow", "chat", "resume", "config"] {
            assert!(done.stdout.contains(word), "{shell} does not know {word}");
        }
        std::fs::write(world.path().join(shell), &done.stdout).unwrap();
    }
    let checked = world.program("/bin/bash").args(["-n", "bash"]).status().unwrap();
    assert!(checked.success());
    let done = world.run(&["completions", "basic"]);
    assert_eq!(done.code, Some(2), "{done:?}");
}

#[test]
fn the_man_page_has_every_command() {
    let world = World::new();
    let done = world.run(&["man"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains(".TH turnwire 1"), "{}", done.stdout);
    assert!(done.stdout.contains("turnwire\\-follow"), "{}", done.stdout);
    let folder = world.path().display().to_string();
    assert_eq!(world.run(&["man", "--output", &folder]).code, Some(0));
    for page in ["turnwire.1", "turnwire-runs-share.1", "turnwire-chat.1"] {
        let text = std::fs::read_to_string(world.path().join(page)).expect(page);
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(!world.path().join("turnwire-read.1").exists());
    assert_eq!(world.run(&["man", "--output", "no/such/folder"]).code, Some(1));
}
