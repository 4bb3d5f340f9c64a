//! `on_tool_start` is told a name, not a number.

fn ask(agent: &turnwire::Agent) {
    let _ = agent.stream_chat("Go.").on_tool_start(|_name: u32| ());
}

fn main() {}
