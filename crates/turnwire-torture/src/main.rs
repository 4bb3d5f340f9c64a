//! The program: parses options, runs a mode, and reports the result.
#![expect(clippy::print_stdout, reason = "the result is what it is for")]

use std::{io, process::ExitCode};

use anyhow::bail;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use turnwire_torture::{
    evidence::Verdict,
    modes::{self, controls, first_token, inspect, outage, resume, rolling},
    options::Options,
    report::{self, ReportHeader},
    seeded_fault::Fault,
};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if options.list_negative_controls {
        for fault in Fault::ALL {
            println!("{}", fault.name());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (header, verdict) = tokio::select! {
        done = Box::pin(run_mode(&options)) => done?,
        // Dropping the other branch ends all child processes.
        stopped = stopped() => bail!("stopped by {}", stopped?),
    };
    if let Some(path) = &options.report {
        std::fs::write(path, report::markdown(&header, &verdict))?;
    }
    if options.json {
        println!("{}", report::json(&header, &verdict));
    } else {
        print!("{}", report::text(&header, &verdict));
    }
    // A negative control succeeds if it finds violations.
    let is_good = match options.negative_control.as_deref() {
        Some("none") | None => report::is_good(&header, &verdict),
        Some(_) => header.missed.is_empty(),
    };
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for a termination signal.
async fn stopped() -> io::Result<&'static str> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    })
}

async fn run_mode(options: &Options) -> anyhow::Result<(ReportHeader, Verdict)> {
    if let Some(name) = &options.negative_control {
        return controls::control(options, name).await;
    }
    if let Some(address) = &options.inspect {
        return inspect::inspect(options, address).await;
    }
    if let Some(longest) = options.outage {
        return outage::outages(options, longest).await;
    }
    if let Some(n_rounds) = options.rolling {
        return rolling::rolling(options, n_rounds).await;
    }
    if let Some(seconds) = options.first_token {
        return first_token::first_token(options, seconds).await;
    }
    if let Some(n_runs) = options.resume {
        return resume::resume(options, n_runs).await;
    }
    modes::torture(options).await
}
