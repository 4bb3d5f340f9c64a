//! C28: what becomes of a gateway whose disk is full, and of one whose file cannot be written to
//! for another reason. It says so, and goes on by itself when the fault is gone. And what becomes of
//! one whose file is damaged.
//!
//! The gateway runs in a mount namespace of its own, with its folder on a file system of twelve
//! megabytes. The test reaches into it by `/proc`.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
use turnwire_testkit::services::Postgres;

use crate::{
    serve::{DEMO, Gateway, json_of, quick, status_of},
    world::{PATIENCE, Running, TURNWIRE, World},
};

/// How long a tool takes during which the disk becomes full.
const TOOL_TIME: Duration = Duration::from_secs(2);

/// How soon a gateway must take work again once the fault is gone.
const HEALED_WITHIN: Duration = Duration::from_secs(5);

/// A gateway on a small disk, with its log on it, too; or one whose PostgreSQL is on one.
struct SmallDisk {
    gateway: Gateway,
    /// The folder on the disk, as seen from here.
    folder: PathBuf,
    _world: World,
    _postgres: Option<Postgres>,
}

impl SmallDisk {
    fn start() -> Self {
        Self::with_tools_of("0")
    }

    /// With tools that take so many milliseconds.
    fn with_tools_of(millis: &str) -> Self {
        let world = World::new()
            .with("TURNWIRE_DEMO_PACE_MS", "0")
            .with("TURNWIRE_DEMO_TOOL_MS", millis)
            .with("TURNWIRE_STORE_URL", "sqlite://turnwire.db")
            .with("TURNWIRE_LOG", "debug")
            .with("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let mut command = world.program("unshare");
        let inside = "mount -t tmpfs -o size=12m,mode=0700 tmpfs . && cd \"$PWD\" && \
                      exec \"$0\" \"$@\" 2>log";
        command.args(["--map-root-user", "--mount", "sh", "-c", inside, TURNWIRE]).args(DEMO);
        let mut gateway = Gateway::listening(Running::start(command), &DEMO);
        let pid = gateway.running().child.id();
        let folder = world.path().strip_prefix("/").unwrap().to_owned();
        let folder = PathBuf::from(format!("/proc/{pid}/root")).join(folder);
        Self { gateway, folder, _world: world, _postgres: None }
    }

    /// Whose PostgreSQL is on a small disk.
    fn of_postgres(millis: &str) -> Self {
        let postgres = Postgres::on_small_disk(100);
        let world = World::new()
            .with("TURNWIRE_DEMO_PACE_MS", "0")
            .with("TURNWIRE_DEMO_TOOL_MS", millis)
            .with("TURNWIRE_STORE_URL", &postgres.url());
        let gateway = Gateway::start(&world, &DEMO);
        Self { gateway, folder: postgres.disk(), _world: world, _postgres: Some(postgres) }
    }

    fn fill(&self) {
        fill(&self.folder);
    }

    fn free(&self) {
        free(&self.folder);
    }

    async fn ask(&self) -> StatusCode {
        let body: Value = json!({ "input": "multiply 5 and 4", "stream": false });
        status_of(self.gateway.post("/v1/responses", &body)).await
    }

    async fn readiness(&self) -> StatusCode {
        status_of(self.gateway.get("/readyz")).await
    }

    /// Asks until it is answered with `status`, and says how long that took.
    async fn becomes(&self, status: StatusCode) -> Duration {
        let began = Instant::now();
        while self.readiness().await != status {
            assert!(began.elapsed() < PATIENCE, "never {status}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        began.elapsed()
    }
}

/// Fills what is left of the disk that a folder is on.
fn fill(folder: &Path) {
    let mut file = File::create(folder.join("ballast")).unwrap();
    let mut size = 1024 * 1024;
    while size > 0 {
        if file.write_all(&vec![1; size]).is_err() {
            size /= 2;
        }
    }
}

fn free(folder: &Path) {
    fs::remove_file(folder.join("ballast")).unwrap();
}

/// C28: a full disk is told by readiness and by a 503, and is over when it is over.
#[tokio::test]
async fn a_full_disk_heals_without_a_restart() {
    let disk = SmallDisk::start();
    assert_eq!(disk.ask().await, StatusCode::OK);
    for round in 0..3 {
        disk.fill();
        disk.becomes(StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!(disk.ask().await, StatusCode::SERVICE_UNAVAILABLE, "round {round}");
        disk.free();
        let took = disk.becomes(StatusCode::OK).await;
        assert!(took <= HEALED_WITHIN, "round {round}: ready again after {took:?}");
        assert_eq!(disk.ask().await, StatusCode::OK, "round {round}");
    }
    let mut disk = disk;
    disk.gateway.signal("TERM");
    assert_eq!(disk.gateway.finish().code, Some(0));
}

/// A run that is in progress when the disk becomes full waits for room, new work is told when to come
/// again, and nothing that anybody saw is lost: the run goes on when there is room.
async fn full_in_the_middle(disk: &SmallDisk) {
    let tools = json!([{ "type": "mcp", "server_label": "demo", "require_approval": "never" }]);
    let body = json!({ "input": "multiply 5 and 4", "background": true, "tools": tools });
    let (_, response) = json_of(disk.gateway.post("/v1/responses", &body)).await;
    let run = response["id"].as_str().expect("a response").replace("resp_", "run_");
    let events = || disk.gateway.get(&format!("/v1/runs/{run}/events"));
    let mut stream = events().send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("tool_started") {
        let piece = stream.chunk().await.unwrap().expect("it goes on");
        seen += std::str::from_utf8(&piece).unwrap();
    }
    disk.fill();
    disk.becomes(StatusCode::SERVICE_UNAVAILABLE).await;
    let refused = disk.gateway.post("/v1/responses", &body).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["error"]["code"], "store_unavailable");
    // Nothing tells of the end of a tool that cannot be recorded.
    tokio::time::sleep(TOOL_TIME).await;
    assert_eq!(disk.readiness().await, StatusCode::SERVICE_UNAVAILABLE);
    disk.free();
    disk.becomes(StatusCode::OK).await;
    seen += &stream.text().await.unwrap();
    let whole = events().send().await.unwrap().text().await.unwrap();
    assert_eq!(without_comments(&seen), without_comments(&whole));
    let (_, run) = json_of(disk.gateway.get(&format!("/v1/runs/{run}"))).await;
    assert_eq!(run["status"], "completed", "{run:#}");
    assert_eq!(disk.ask().await, StatusCode::OK);
}

/// What a stream says besides that it is alive.
fn without_comments(stream: &str) -> Vec<&str> {
    stream.lines().filter(|line| !line.is_empty() && !line.starts_with(':')).collect()
}

/// C28: a run waits for room on the disk of a SQLite store, and its file is whole then.
#[tokio::test]
async fn a_run_waits_for_room() {
    let mut disk = SmallDisk::with_tools_of(&TOOL_TIME.as_millis().to_string());
    full_in_the_middle(&disk).await;
    disk.gateway.signal("STOP");
    let copies = tempfile::tempdir().unwrap();
    for name in ["turnwire.db", "turnwire.db-wal"] {
        fs::copy(disk.folder.join(name), copies.path().join(name)).unwrap();
    }
    disk.gateway.signal("CONT");
    let options = SqliteConnectOptions::new().filename(copies.path().join("turnwire.db"));
    let mut copy = options.connect().await.unwrap();
    let found: String =
        sqlx::query_scalar("pragma integrity_check").fetch_one(&mut copy).await.unwrap();
    assert_eq!(found, "ok");
    copy.close().await.unwrap();
    disk.gateway.signal("TERM");
    assert_eq!(disk.gateway.finish().code, Some(0));
}

/// C28: a run waits for room on the disk of a PostgreSQL.
#[tokio::test]
async fn a_run_waits_for_room_of_postgres() {
    let mut disk = SmallDisk::of_postgres(&TOOL_TIME.as_millis().to_string());
    full_in_the_middle(&disk).await;
    disk.gateway.signal("TERM");
    let done = disk.gateway.finish();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

/// C28: a gateway that cannot write any more ends when it is told to.
#[tokio::test]
async fn a_gateway_on_a_full_disk_can_be_ended() {
    let mut disk = SmallDisk::start();
    assert_eq!(disk.ask().await, StatusCode::OK);
    disk.fill();
    disk.becomes(StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(disk.ask().await, StatusCode::SERVICE_UNAVAILABLE);
    disk.gateway.signal("TERM");
    assert_eq!(disk.gateway.finish().code, Some(0));
}

/// C28: a gateway does not start on a read-only disk, and says why.
#[test]
fn a_gateway_does_not_start_on_a_read_only_disk() {
    for (prepared, reason) in
        [("true", "Read-only file system"), ("touch turnwire.db", "readonly database")]
    {
        let world = World::new()
            .with("TURNWIRE_STORE_URL", "sqlite://turnwire.db")
            .with("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let mut command = world.program("unshare");
        let inside = format!(
            "mount -t tmpfs -o size=12m,mode=0700 tmpfs . && cd \"$PWD\" && {prepared} && \
             mount -o remount,ro \"$PWD\" && exec \"$0\" \"$@\""
        );
        command.args(["--map-root-user", "--mount", "sh", "-c", &inside, TURNWIRE]).args(DEMO);
        let done = Running::start(command).finish();
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        assert!(done.stderr.contains(reason), "{}", done.stderr);
        assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
    }
}

/// C28: of a file whose pages are damaged in the middle, everything is told that can be read, and
/// of the rest that it cannot: nothing is wrong, and nothing panics. The log says what to do.
#[tokio::test]
async fn a_damaged_file_is_told() {
    let world = quick().with("TURNWIRE_STORE_URL", "sqlite://turnwire.db");
    let mut gateway = Gateway::start(&world, &DEMO);
    let mut journals = BTreeMap::new();
    let said = "word ".repeat(2_000);
    for n in 0..100 {
        let body = json!({ "input": format!("{n} {said}"), "stream": false });
        assert_eq!(status_of(gateway.post("/v1/responses", &body)).await, StatusCode::OK);
    }
    let (_, runs) = json_of(gateway.get("/v1/runs?limit=100")).await;
    for run in runs["data"].as_array().unwrap() {
        let id = run["run_id"].as_str().unwrap().to_owned();
        let events = gateway.get(&format!("/v1/runs/{id}/events")).send().await.unwrap();
        journals.insert(id, events.text().await.unwrap());
    }
    assert_eq!(journals.len(), 100);
    gateway.signal("TERM");
    assert_eq!(gateway.finish().code, Some(0));

    let path = world.path().join("turnwire.db");
    let mut file = fs::read(&path).unwrap();
    let (start, n_bytes) = (file.len() / 2, file.len() / 8);
    let start = start - start % 4096;
    file[start..start + n_bytes - n_bytes % 4096].fill(0xff);
    fs::write(&path, file).unwrap();

    let mut gateway = Gateway::start(&world, &DEMO);
    let (mut n_read, mut n_refused) = (0, 0);
    for (id, before) in &journals {
        let events = gateway.get(&format!("/v1/runs/{id}/events")).send().await.unwrap();
        let (status, events) = (events.status(), events.text().await.unwrap_or_default());
        if status == StatusCode::OK && events == *before {
            n_read += 1;
        } else {
            let is_told = status == StatusCode::SERVICE_UNAVAILABLE
                || events.contains("journal_unreadable")
                || events.contains("the journal cannot be read");
            assert!(is_told, "{id}: {status} {events}");
            n_refused += 1;
        }
    }
    assert!(n_read > 0 && n_refused > 0, "{n_read} are read, {n_refused} are not");
    gateway.running().stderr.wait_for("database file damaged");
    gateway.signal("TERM");
    let done = gateway.finish();
    assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
    assert!(done.stderr.contains("restore a backup"), "{}", done.stderr);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}
