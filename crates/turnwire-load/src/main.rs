//! `load`: the two ends between which `scripts/compare` puts a gateway.
//!
//! `load model` plays a model server, with a tool server beside it, and `load drive` its clients.
//! Both are made to cost as little as possible, so that the gateway between them is what is
//! measured: one thread each, answers that are prepared once, and clients that search bytes and
//! parse nothing. Every word of an answer is the time at which the model sent it, so that clients
//! know how old it is.

mod drive;
mod http;
mod model;
mod tool_server;
mod words;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "load", about = "A model server and clients, to measure a gateway between them")]
enum Command {
    /// Plays a model server until it is killed; the first line says where it listens.
    Model(model::ModelOptions),
    /// Requests streams from a gateway and prints what came, as one line of JSON.
    Drive(drive::DriveOptions),
}

fn main() -> anyhow::Result<()> {
    let command = Command::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    match command {
        Command::Model(options) => runtime.block_on(local.run_until(model::serve(options))),
        Command::Drive(options) => runtime.block_on(local.run_until(drive::drive(options))),
    }
}
