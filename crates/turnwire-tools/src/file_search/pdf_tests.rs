use std::time::{Duration, Instant};

use turnwire_contract::ExtractionFailure;

use super::{NoText, PdfProgram};

fn shell(script: &str) -> PdfProgram {
    let mut program = PdfProgram::new("/bin/sh", "-c");
    program.arguments.push(script.into());
    program.timeout = Duration::from_millis(500);
    program
}

async fn read(script: &str, content: &[u8]) -> Result<String, NoText> {
    shell(script).text_of("paper.pdf", content).await
}

fn why(read: Result<String, NoText>) -> ExtractionFailure {
    read.unwrap_err().why
}

#[tokio::test]
async fn what_the_program_says_is_the_text() {
    // Larger than a pipe buffer, in both directions.
    let content = "walrus ".repeat(100_000);
    assert_eq!(read("exec /bin/cat", content.as_bytes()).await, Ok(content));
}

/// A15: if the program fails, the server continues, and the file is reported as damaged.
#[tokio::test]
async fn a_program_that_fails_is_a_broken_file() {
    assert_eq!(why(read("echo half; exit 1", b"x").await), ExtractionFailure::Invalid);
    assert_eq!(why(read("echo half; kill -SEGV $$", b"x").await), ExtractionFailure::Invalid);
    assert_eq!(why(read("printf '\\377'", b"x").await), ExtractionFailure::Invalid);
    assert_eq!(why(read("exec cat /dev/zero", b"x").await), ExtractionFailure::Invalid);
    let nobody = PdfProgram::new("/no/such/program", "x").text_of("paper.pdf", b"x").await;
    assert_eq!(why(nobody), ExtractionFailure::Broke);
}

/// A15: a program that does not terminate is killed.
#[tokio::test]
async fn a_program_that_takes_too_long_is_killed() {
    let began = Instant::now();
    let slow = read("exec /bin/sleep 20", b"x").await;
    assert_eq!(slow.unwrap_err().reason, "`paper.pdf` takes too long to read");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// A8: the program inherits no environment variables.
#[tokio::test]
async fn the_program_has_no_environment() {
    let seen = read("exec /usr/bin/env", b"").await.unwrap();
    let ours =
        |line: &&str| !["PWD=", "OLDPWD=", "SHLVL=", "_="].iter().any(|its| line.starts_with(its));
    assert_eq!(
        seen.lines().filter(ours).collect::<Vec<_>>(),
        Vec::<&str>::new(),
        "only what a shell sets"
    );
}
