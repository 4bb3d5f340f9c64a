//! Reads a secret from the terminal without showing it.

use std::io;

/// Asks for a line. What is typed from the appearance of the prompt on is not shown. Ctrl-C fails
/// with `Interrupted`, so that the terminal is restored.
#[cfg(unix)]
pub(crate) fn read_secret(prompt: &str) -> io::Result<String> {
    use std::io::Write;

    use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

    let stdin = io::stdin();
    let usual_mode = tcgetattr(&stdin)?;
    let mut silent = usual_mode.clone();
    silent.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
    tcsetattr(&stdin, SetArg::TCSANOW, &silent)?;
    let asked = write!(io::stderr(), "{prompt}").and_then(|()| io::stderr().flush());
    let read = asked.and_then(|()| read_keys(io::stdin().lock()));
    tcsetattr(&stdin, SetArg::TCSANOW, &usual_mode)?;
    let _ = writeln!(io::stderr());
    read
}

/// Reads keys up to the end of the line.
#[cfg(unix)]
fn read_keys(keys: impl io::BufRead) -> io::Result<String> {
    const CTRL_C: u8 = 3;
    const CTRL_D: u8 = 4;
    const BACKSPACE: [u8; 2] = [8, 127];
    let mut line = Vec::new();
    for key in keys.bytes() {
        match key? {
            b'\r' | b'\n' | CTRL_D => break,
            CTRL_C => return Err(io::ErrorKind::Interrupted.into()),
            key if BACKSPACE.contains(&key) => {
                line.pop();
            }
            key => line.push(key),
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(not(unix))]
pub(crate) fn read_secret(prompt: &str) -> io::Result<String> {
    let terminal = console::Term::stderr();
    terminal.write_str(prompt)?;
    terminal.read_secure_line()
}
