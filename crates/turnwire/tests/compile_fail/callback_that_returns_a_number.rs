//! A callback returns nothing, or a `Result` whose error is logged.

fn ask(agent: &turnwire::Agent) {
    let _ = agent.stream_chat("Go.").on_token(|token| token.len());
}

fn main() {}
