//! Real servers for tests: PostgreSQL and Redis on free loopback ports, with their files in a
//! temporary directory.
//!
//! [`postgres_url`] uses the server of `TURNWIRE_TEST_POSTGRES` if it is set (the gate starts one
//! for all tests), and otherwise one that this process starts. Each call creates a new database, so
//! tests are independent.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the URL of a new, empty database.
pub fn postgres_url() -> String {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "the gate says where its server is")]
    let given = std::env::var("TURNWIRE_TEST_POSTGRES").ok();
    let server = given.unwrap_or_else(|| SERVER.get_or_init(Postgres::start).url());
    let name = format!("test_{}", uuid::Uuid::new_v4().simple());
    let made = Command::new("psql")
        .args(["--quiet", "--no-psqlrc", "--command", &format!("create database {name}"), &server])
        .output()
        .expect("psql can be started");
    assert!(made.status.success(), "no database: {}", String::from_utf8_lossy(&made.stderr));
    let (address, _) = server.rsplit_once('/').expect("the address names a database");
    format!("{address}/{name}")
}

/// Returns the name of a role that sees only the rows of one tenant, on the server of
/// [`postgres_url`]. Roles belong to the server, so that tests share it.
pub fn tenant_role(database: &str) -> String {
    let name = "turnwire_tenant".to_owned();
    let create = format!(
        "do $$ begin create role {name}; \
         exception when duplicate_object or unique_violation then null; end $$"
    );
    let made = Command::new("psql")
        .args(["--quiet", "--no-psqlrc", "--command", &create, database])
        .output()
        .expect("psql can be started");
    assert!(made.status.success(), "no role: {}", String::from_utf8_lossy(&made.stderr));
    name
}

/// Returns the URL of a Redis server.
pub fn redis_url() -> String {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "the gate says where its server is")]
    let given = std::env::var("TURNWIRE_TEST_REDIS").ok();
    given.unwrap_or_else(|| SERVER.get_or_init(Redis::start).url())
}

/// Returns an unused port.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

/// A PostgreSQL server started by this process.
#[derive(Debug)]
pub struct Postgres {
    directory: TempDir,
    port: u16,
    server: Server,
}

impl Postgres {
    /// Starts a new, empty server.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("turnwire-pg").tempdir().expect("a place");
        let data = directory.path().join("data");
        let tools = postgres_tools();
        let by_root = is_root();
        if by_root {
            // PostgreSQL does not run as root.
            run(Command::new("chown").arg("postgres").arg(directory.path()));
        }
        let mut make = as_postgres(&tools.join("initdb"), by_root);
        run(make
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale"])
            .arg("--no-sync")
            .arg("--pgdata")
            .arg(&data));
        let port = free_port();
        let mut command = as_postgres(&tools.join("postgres"), by_root);
        command
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-k"])
            .arg(directory.path())
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300"]);
        let mut probe = Command::new(tools.join("pg_isready"));
        probe.args(["--host=127.0.0.1", "--port", &port.to_string()]);
        let server = Server::start(command, probe, Some(directory.path()));
        Self { directory, port, server }
    }

    /// Starts a new, empty server on a file system of its own with so many megabytes, which needs
    /// 60 by itself. It is mounted where nobody else sees it; [`Self::disk`] leads there.
    pub fn on_small_disk(megabytes: usize) -> Self {
        const INSIDE: &str = "mount -t tmpfs -o size=$1m,mode=0700 tmpfs \"$2\" && cd \"$2\" && \
            exec unshare --user --map-user=1000 --map-group=1000 sh -c '\
                \"$3/initdb\" --auth=trust --username=postgres --encoding=UTF8 --no-locale \
                    --no-sync --wal-segsize=1 --pgdata data && \
                exec \"$3/postgres\" -D data -p \"$4\" -k \"$2\" -c listen_addresses=127.0.0.1 \
                    -c max_connections=50 -c min_wal_size=2MB -c max_wal_size=8MB' sh \"$@\"";
        let directory = tempfile::Builder::new().prefix("turnwire-pg").tempdir().expect("a place");
        let (port, tools) = (free_port(), postgres_tools());
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", INSIDE, "sh"]);
        command.arg(megabytes.to_string()).arg(directory.path()).arg(&tools);
        command.arg(port.to_string());
        let mut probe = Command::new(tools.join("pg_isready"));
        probe.args(["--host=127.0.0.1", "--port", &port.to_string()]);
        let server = Server::start(command, probe, Some(directory.path()));
        Self { directory, port, server }
    }

    /// The folder of a server [on a small disk](Self::on_small_disk), as seen from outside.
    pub fn disk(&self) -> PathBuf {
        let folder = self.directory.path().strip_prefix("/").unwrap_or(self.directory.path());
        Path::new("/proc").join(self.server.child.id().to_string()).join("root").join(folder)
    }

    /// Returns its URL, with the database `postgres`.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns its loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server and all its children at once, like a power failure.
    pub fn kill(&mut self) {
        // Stopped first, so that it cannot fork further children.
        signal("STOP", &[self.server.child.id()]);
        let pids = self.server.with_children();
        signal("KILL", &pids);
        self.server.wait();
        // A killed server leaves its lock file and shared memory.
        let _ = fs::remove_file(self.directory.path().join("data/postmaster.pid"));
    }

    /// Starts it again after a kill.
    pub fn restart(&mut self) {
        self.server.restart();
    }

    /// Freezes it: connections stay open and nothing responds.
    pub fn freeze(&self) {
        signal("STOP", &self.server.with_children());
    }

    /// Resumes it after [`Self::freeze`].
    pub fn thaw(&self) {
        signal("CONT", &self.server.with_children());
    }
}

/// A `PgBouncer` started by this process, in front of a `PostgreSQL`.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    database: String,
    _directory: TempDir,
    _server: Server,
}

impl PgBouncer {
    /// Starts one for the database at `url`, with this `pool_mode`.
    pub fn start(url: &str, pool_mode: &str) -> Self {
        let address = url.split_once('@').expect("the address names a user").1;
        let (host, database) = address.split_once('/').expect("the address names a database");
        let (host, server_port) = host.split_once(':').expect("the address names a port");
        let directory = tempfile::Builder::new().prefix("turnwire-bouncer").tempdir();
        let directory = directory.expect("a place");
        let (port, path) = (free_port(), directory.path());
        let (users, settings) = (path.join("users.txt"), path.join("pgbouncer.ini"));
        fs::write(&users, "\"postgres\" \"\"\n").expect("there is room");
        let text = format!(
            "[databases]\n* = host={host} port={server_port}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\npool_mode = {pool_mode}\n\
             ignore_startup_parameters = extra_float_digits\n",
            users.display()
        );
        fs::write(&settings, text).expect("there is room");
        let by_root = is_root();
        if by_root {
            run(Command::new("chown").arg("-R").arg("postgres").arg(path));
        }
        let mut command = as_postgres(Path::new("/usr/sbin/pgbouncer"), by_root);
        command.arg(&settings);
        let mut probe = Command::new(postgres_tools().join("pg_isready"));
        probe.args(["--host=127.0.0.1", "--port", &port.to_string()]);
        let server = Server::start(command, probe, None);
        Self { port, database: database.to_owned(), _directory: directory, _server: server }
    }

    /// Returns the URL of the database through the pooler.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}", self.port, self.database)
    }
}

/// A Redis server started by this process.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    server: Server,
}

impl Redis {
    /// Starts a new, empty server.
    pub fn start() -> Self {
        let port = free_port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no"]);
        let mut probe = Command::new("redis-cli");
        probe.args(["-p", &port.to_string(), "ping"]);
        Self { port, server: Server::start(command, probe, None) }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns its loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        signal("KILL", &[self.server.child.id()]);
        self.server.wait();
    }

    /// Starts it again, empty.
    pub fn restart(&mut self) {
        self.server.restart();
    }
}

/// A process that listens on a port and is killed with this one.
#[derive(Debug)]
struct Server {
    child: Child,
    command: Command,
    /// Succeeds when the server responds.
    probe: Command,
    /// Deleted together with the server.
    directory: Option<PathBuf>,
    watchdog: Child,
}

impl Server {
    fn start(mut command: Command, probe: Command, directory: Option<&Path>) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let directory = directory.map(ToOwned::to_owned);
        let watchdog = watchdog(&child, directory.as_deref());
        let mut server = Self { child, command, probe, directory, watchdog };
        server.must_answer();
        server
    }

    fn restart(&mut self) {
        self.stop_watchdog();
        self.child = self.command.spawn().expect("it could be started before");
        self.watchdog = watchdog(&self.child, self.directory.as_deref());
        self.must_answer();
    }

    fn must_answer(&mut self) {
        let until = Instant::now() + PATIENCE;
        while !self.probe.output().is_ok_and(|probed| probed.status.success()) {
            assert!(Instant::now() < until, "{:?} does not answer", self.command);
            sleep(Duration::from_millis(20));
        }
    }

    fn stop_watchdog(&mut self) {
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }

    fn wait(&mut self) {
        self.child.wait().expect("it was ours");
    }

    /// Returns the process ids of the server and its children.
    fn with_children(&self) -> Vec<u32> {
        let parent = self.child.id();
        let listed = Command::new("pgrep").args(["-P", &parent.to_string()]).output();
        let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let children = listed.unwrap_or_default();
        let children = children.lines().filter_map(|line| line.trim().parse().ok());
        [parent].into_iter().chain(children).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_watchdog();
        signal("KILL", &self.with_children());
        let _ = self.child.wait();
    }
}

/// Kills the server when this process ends in any way: a `static` is never dropped, and a killed
/// test drops nothing. The watchdog waits for the pipe from this process to close.
fn watchdog(server: &Child, directory: Option<&Path>) -> Child {
    const SCRIPT: &str =
        "read -r _; kill -KILL \"$1\"; [ -z \"$2\" ] || { sleep 1; rm -rf \"$2\"; }";
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "watchdog", &server.id().to_string()]);
    command.arg(directory.unwrap_or(Path::new("")));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().expect("sh can be started")
}

fn signal(name: &str, pids: &[u32]) {
    let pids = pids.iter().map(ToString::to_string);
    let _ = Command::new("kill").arg(format!("-{name}")).args(pids).stderr(Stdio::null()).status();
}

/// Debian installs the server's programs outside the path.
fn postgres_tools() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let versions = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let newest = versions.filter(|path| path.join("initdb").exists()).max();
    newest.unwrap_or_else(PathBuf::new)
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn as_postgres(program: &Path, by_root: bool) -> Command {
    if !by_root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

fn run(command: &mut Command) {
    let done: io::Result<_> = command.stdin(Stdio::null()).output();
    let done = done.unwrap_or_else(|error| {
        panic!("{command:?}: {error}; is the package `postgresql` installed?")
    });
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}
