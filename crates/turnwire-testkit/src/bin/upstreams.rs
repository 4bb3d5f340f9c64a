//! A model server and a search server for tests that drive a gateway from outside.
//!
//! `upstreams [--port N]` prints one line of JSON with its addresses and serves until it is
//! stopped. Without a port, or with 0, it uses any free one.

use std::{
    env,
    io::{self, Write},
};

use turnwire_testkit::upstreams::Upstreams;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let upstreams = Upstreams::start(port()?).await?;
    let mut out = io::stdout();
    writeln!(out, "{}", upstreams.addresses())?;
    out.flush()?;
    upstreams.wait().await;
    Ok(())
}

fn port() -> io::Result<u16> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let mut arguments = env::args().skip(1);
    let port = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => "0".to_owned(),
        (Some("--port"), Some(port)) => port,
        (Some(other), _) => return Err(wrong(format!("usage: upstreams [--port N], not {other}"))),
    };
    port.parse().map_err(|_| wrong(format!("{port} is not a port")))
}
