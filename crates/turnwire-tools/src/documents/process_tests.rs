use std::time::{Duration, Instant};

use turnwire_contract::{Chunking, ExtractionFailure, NewChunk};

use super::{Answer, Program, Task, Unread};

/// A child that is this script.
fn shell(script: &str) -> Program {
    let mut program = Program::new("/bin/sh".into(), "-c".into());
    program.arguments.push(script.into());
    program.timeout = Duration::from_mins(1);
    program
}

fn task() -> Task {
    Task::File { name: "paper.txt".to_owned(), chunking: Chunking::Auto }
}

async fn read(script: &str, content: &[u8]) -> Result<Answer, Unread> {
    shell(script).read(&task(), content).await
}

async fn why(script: &str) -> String {
    let unread = read(script, b"x").await.unwrap_err();
    assert_eq!(unread.why, ExtractionFailure::Invalid);
    unread.reason
}

const END: &str = r"printf 'e\000\000\000\000'";

#[tokio::test]
async fn what_the_child_says_is_the_answer() {
    // Larger than a pipe buffer.
    let content = "walrus ".repeat(100_000);
    let script = format!(
        r"/usr/bin/tail -c +1 > /dev/null; printf 'c\004\000\000\000Seal'; printf 'w\004\000\000\000seal'; {END}"
    );
    let chunk = NewChunk { text: "Seal".to_owned(), words: "seal".to_owned() };
    assert_eq!(read(&script, content.as_bytes()).await, Ok(Answer::Chunks(vec![chunk])));
}

/// A15: if a child fails, the server continues, and the file is reported as damaged.
#[tokio::test]
async fn a_child_that_fails_is_a_broken_file() {
    let damaged = "`paper.txt` is damaged, or needs too much memory to be read";
    for script in [
        "exit 1",
        "kill -SEGV $$",
        r"printf 'c\004\000\000\000Se'",
        r"printf 'c\001\000\000\000\377'",
        r"printf 'w\001\000\000\000x'",
        "exec cat /dev/zero",
    ] {
        assert_eq!(why(script).await, damaged, "{script}");
    }
    assert_eq!(why("kill -KILL $$").await, "`paper.txt` takes too long to read");
    let nobody = Program::new("/no/such/program".into(), "x".into());
    assert_eq!(nobody.read(&task(), b"x").await.unwrap_err().why, ExtractionFailure::Broke);
}

/// A20: an answer is read up to its limit, and the child is killed there.
#[tokio::test]
async fn an_answer_without_end_is_cut() {
    let long = why(r"printf 'c\000\000\000\177'; exec cat /dev/zero").await;
    assert_eq!(long, "`paper.txt` has too much text");
}

/// A15: a child that does not terminate is killed.
#[tokio::test]
async fn a_child_that_takes_too_long_is_killed() {
    let mut impatient = shell("exec /bin/sleep 1000");
    impatient.timeout = Duration::from_millis(200);
    let began = Instant::now();
    let reason = impatient.read(&task(), b"x").await.unwrap_err().reason;
    assert_eq!(reason, "`paper.txt` takes too long to read");
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
}

/// A8: the child inherits no environment variables.
#[tokio::test]
async fn the_child_has_no_environment() {
    let script = format!(
        r#"v=$(/usr/bin/env | /bin/grep -v -E '^(PWD|OLDPWD|SHLVL|_)='); test -z "$v" && {END}"#
    );
    assert_eq!(read(&script, b"x").await, Ok(Answer::Chunks(Vec::new())));
}
