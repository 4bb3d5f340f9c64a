//! `on_event` returns a future.

fn ask(agent: &turnwire::Agent) {
    let _ = agent.stream_chat("Go.").on_event(|_event_type, _data| ());
}

fn main() {}
