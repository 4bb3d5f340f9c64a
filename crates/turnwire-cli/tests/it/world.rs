//! What the tests have in common: the binary, the streams it writes to, and a server it can
//! ask. Everything waits for what it expects, with a deadline and without sleeping.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use turnwire_contract::RecordedEvent;

/// How long anything may take on a busy machine before the test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const TURNWIRE: &str = env!("CARGO_BIN_EXE_turnwire");

/// `turnwire …` in an empty folder with an empty environment.
pub(crate) struct World {
    pub(crate) folder: Arc<TempDir>,
    variables: Vec<(String, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: Arc::new(tempfile::tempdir().unwrap()), variables: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn with_file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.folder.path().join(name), text).unwrap();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(TURNWIRE);
        command.args(arguments);
        command
    }

    /// Any program in the same folder, with the same environment.
    pub(crate) fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.variables.iter().cloned());
        command.current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        self.start(arguments).finish()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let running = Running::start(self.command(arguments));
        Running { _folder: Some(Arc::clone(&self.folder)), ..running }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A process that is under way.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdout: Watched,
    pub(crate) stderr: Watched,
    /// A server's files must not be removed while it runs.
    _folder: Option<Arc<TempDir>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = Watched::new(child.stdout.take().unwrap());
        let stderr = Watched::new(child.stderr.take().unwrap());
        Self { child, stdout, stderr, _folder: None }
    }

    pub(crate) fn signal(&self, name: &str) {
        send_signal(self.child.id(), name);
    }

    pub(crate) fn finish(mut self) -> Done {
        let (stdout, stderr) = (self.stdout.all(), self.stderr.all());
        Done { code: self.child.wait().unwrap().code(), stdout, stderr }
    }
}

pub(crate) fn send_signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// A stream that is read all the time, so that one can wait for what comes.
pub(crate) struct Watched {
    seen: Vec<u8>,
    pieces: Receiver<Vec<u8>>,
}

impl Watched {
    pub(crate) fn new(mut stream: impl Read + Send + 'static) -> Self {
        let (sender, pieces) = mpsc::channel();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            // A terminal that is gone ends with an error instead of with nothing.
            while let Ok(n_bytes @ 1..) = stream.read(&mut piece) {
                if sender.send(piece[..n_bytes].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { seen: Vec::new(), pieces }
    }

    /// Waits until `is_there` says so of all bytes so far.
    pub(crate) fn wait_until(&mut self, what: &str, mut is_there: impl FnMut(&[u8]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_there(&self.seen) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.pieces.recv_timeout(left) {
                Ok(piece) => self.seen.extend(piece),
                Err(why) => panic!("no {what} ({why}):\n{}", String::from_utf8_lossy(&self.seen)),
            }
        }
    }

    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |seen| String::from_utf8_lossy(seen).contains(text));
    }

    /// Waits for `text`, and returns the rest of its line.
    pub(crate) fn rest_of_line(&mut self, text: &str) -> String {
        let mut rest = None;
        self.wait_until(text, |seen| {
            let seen = String::from_utf8_lossy(seen);
            let line = seen.split_once(text).and_then(|(_, rest)| rest.split_once('\n'));
            rest = line.map(|(line, _)| line.to_owned());
            rest.is_some()
        });
        rest.unwrap()
    }

    /// Everything up to the end of the stream.
    pub(crate) fn all_bytes(&mut self) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.pieces.recv_timeout(left) {
                Ok(piece) => self.seen.extend(piece),
                Err(mpsc::RecvTimeoutError::Disconnected) => return self.seen.clone(),
                Err(why) => panic!("no end ({why}):\n{}", String::from_utf8_lossy(&self.seen)),
            }
        }
    }

    pub(crate) fn all(&mut self) -> String {
        String::from_utf8(self.all_bytes()).unwrap()
    }
}

/// A server that speaks Chat Completions and says what the test tells it to.
pub(crate) struct Server {
    port: u16,
    connections: Receiver<TcpStream>,
}

impl Server {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, connections) = mpsc::channel();
        thread::spawn(move || {
            for connection in listener.incoming() {
                if sender.send(connection.unwrap()).is_err() {
                    break;
                }
            }
        });
        Self { port, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Waits for the next question.
    pub(crate) fn question(&self) -> Question {
        let connection = self.connections.recv_timeout(PATIENCE).expect("nobody asked");
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "cut off: {head}");
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse().unwrap())
        });
        let mut body = vec![0; length.unwrap()];
        reader.read_exact(&mut body).unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        Question { connection, head, body }
    }
}

/// A question that waits for its answer.
pub(crate) struct Question {
    connection: TcpStream,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Question {
    pub(crate) fn refuse(mut self, status: &str, message: &str) {
        let body = json!({ "error": { "message": message } }).to_string();
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json");
        write!(self.connection, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    }

    pub(crate) fn begin(&mut self) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close";
        write!(self.connection, "{head}\r\n\r\n").unwrap();
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.send(&json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }));
    }

    /// Says that the prompt was this long.
    pub(crate) fn use_tokens(&mut self, n_tokens: u64) {
        let usage = json!({ "prompt_tokens": n_tokens, "completion_tokens": 0 });
        self.send(&json!({ "choices": [], "usage": usage }));
    }

    pub(crate) fn call(self, name: &str) {
        self.call_with(name, "{}");
    }

    pub(crate) fn call_with(mut self, name: &str, arguments: &str) {
        let function = json!({ "name": name, "arguments": arguments });
        let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
        let delta = json!({ "tool_calls": [call] });
        self.send(&json!({ "choices": [{ "index": 0, "delta": delta }] }));
        let last = json!({ "index": 0, "delta": {}, "finish_reason": "tool_calls" });
        self.send(&json!({ "choices": [last] }));
        write!(self.connection, "data: [DONE]\n\n").unwrap();
    }

    pub(crate) fn end(mut self) {
        let last = json!({ "index": 0, "delta": {}, "finish_reason": "stop" });
        self.send(&json!({ "choices": [last] }));
        write!(self.connection, "data: [DONE]\n\n").unwrap();
    }

    /// Waits until the other side has hung up.
    pub(crate) fn wait_for_hang_up(mut self) {
        self.connection.set_read_timeout(Some(PATIENCE)).unwrap();
        // Being reset is hanging up, too.
        let rest = self.connection.read_to_end(&mut Vec::new());
        if let Err(error) = rest {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
    }

    fn send(&mut self, chunk: &Value) {
        write!(self.connection, "data: {chunk}\n\n").unwrap();
    }
}

/// The events on standard output, checked to be numbered without gaps.
pub(crate) fn journal(stdout: &str) -> Vec<RecordedEvent> {
    let journal: Vec<RecordedEvent> =
        stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let numbers: Vec<u64> = journal.iter().map(|recorded| recorded.seq.0).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    journal
}

/// `text` without the times in it.
pub(crate) fn timeless(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']).map(|word| {
        let time = word.trim_end();
        let seconds = time.strip_suffix('s').filter(|seconds| seconds.parse::<f64>().is_ok());
        if seconds.is_some() { word.replace(time, "…s") } else { word.to_owned() }
    });
    words.collect()
}
