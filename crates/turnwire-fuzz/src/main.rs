//! Reads inputs made from the corpus, for a while, and says what was wrong.
//!
//! `fuzz [--seconds N] [--target NAME] [--from CASE]`. Cases are numbered; by default they begin at
//! the time of day, so that each run tries others. Each target runs in a process of its own, because
//! a stack overflow ends the process.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Write},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use turnwire_fuzz::{Mutator, TARGETS, Target, bounds};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A process that says nothing for so long hangs.
const SILENCE: Duration = Duration::from_mins(1);

/// How often a process says which case it is at.
const REPORT: Duration = Duration::from_millis(100);

struct Arguments {
    seconds: u64,
    target: Option<String>,
    from: Option<u64>,
    /// Set for the process of one target.
    is_child: bool,
}

fn main() -> ExitCode {
    let done = arguments().and_then(|arguments| {
        if arguments.is_child { run_child(&arguments) } else { run_all(&arguments) }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let mut read = Arguments { seconds: 120, target: None, from: None, is_child: false };
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--child" {
            read.is_child = true;
            continue;
        }
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("{word} needs a number, not {value}"));
        match word.as_str() {
            "--seconds" => read.seconds = number()?,
            "--from" => read.from = Some(number()?),
            "--target" => read.target = Some(value),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    Ok(read)
}

/// Runs every target for its share of the time.
fn run_all(arguments: &Arguments) -> Result<(), String> {
    let wanted =
        |target: &&Target| arguments.target.as_ref().is_none_or(|name| name == target.name);
    let targets: Vec<&Target> = TARGETS.iter().filter(wanted).collect();
    if targets.is_empty() {
        return Err("there is no such target".to_owned());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let from = arguments.from.unwrap_or(now << 24);
    let share = Duration::from_secs(arguments.seconds) / u32::try_from(targets.len()).unwrap_or(1);
    let (mut n_cases, mut faults) = (0, Vec::new());
    for target in &targets {
        let began = Instant::now();
        match run_target(target, share, from) {
            Ok(cases) => {
                println!(
                    "{}: {cases} cases in {:.1} s",
                    target.name,
                    began.elapsed().as_secs_f64()
                );
                n_cases += cases;
            }
            Err(fault) => faults.push(format!("{}: {fault}", target.name)),
        }
    }
    for fault in &faults {
        eprintln!("{fault}");
    }
    println!("fuzz: {n_cases} cases of {} targets, {} faults", targets.len(), faults.len());
    if faults.is_empty() { Ok(()) } else { Err("an input breaks a reader".to_owned()) }
}

/// Runs one target in a process of its own. Returns the number of cases.
fn run_target(target: &Target, share: Duration, from: u64) -> Result<u64, String> {
    let mut child = spawn(target, share, from).map_err(|error| error.to_string())?;
    let lines = lines_of(&mut child);
    let (mut last, mut first, mut fault) = (0, None, None);
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => match line.parse() {
                Ok(case) => {
                    first = first.or(Some(case));
                    last = case;
                }
                Err(_) => fault = Some(line),
            },
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                fault = Some(format!("a case after {last} does not end"));
                break;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match fault {
        Some(fault) => Err(fault),
        None if status.success() => Ok(last - first.unwrap_or(last)),
        None => Err(format!("a case after {last} ends the process: {status}")),
    }
}

fn spawn(target: &Target, share: Duration, from: u64) -> io::Result<Child> {
    let seconds = share.as_secs().max(1).to_string();
    let from = from.to_string();
    Command::new(env::current_exe()?)
        .args(["--child", "--target", target.name, "--seconds", &seconds, "--from", &from])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
}

fn lines_of(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
    }
    lines
}

/// Reads the corpus, then what is made of it. Prints the number of a case now and then, and a fault.
fn run_child(arguments: &Arguments) -> Result<(), String> {
    let name = arguments.target.as_deref().unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name).ok_or("no such target")?;
    let corpus = target.corpus().map_err(|error| error.to_string())?;
    for (path, input) in &corpus {
        if let Err(fault) = bounds::check(target, input) {
            return told(&format!("{}: {fault}", path.display()));
        }
    }
    let mutator = Mutator::new(corpus.into_iter().map(|(_, input)| input).collect());
    let from = arguments.from.unwrap_or_default();
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut next_report = Instant::now();
    println!("{from}");
    for case in from.. {
        let input = mutator.input(case);
        if let Err(fault) = bounds::check(target, &input) {
            let path = env::temp_dir().join(format!("turnwire-fuzz-{name}-{case}"));
            fs::write(&path, &input).map_err(|error| error.to_string())?;
            return told(&format!("case {case}, kept in {}: {fault}", path.display()));
        }
        let now = Instant::now();
        if now >= next_report {
            println!("{case}");
            io::stdout().flush().map_err(|error| error.to_string())?;
            next_report = now + REPORT;
        }
        if now >= end {
            println!("{case}");
            break;
        }
    }
    Ok(())
}

fn told(fault: &str) -> Result<(), String> {
    println!("{fault}");
    Err(fault.to_owned())
}
