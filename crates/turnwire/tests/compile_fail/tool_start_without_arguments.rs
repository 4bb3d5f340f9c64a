//! `on_tool_start` is told the tool's name.

fn ask(agent: &turnwire::Agent) {
    let _ = agent.stream_chat("Go.").on_tool_start(|| ());
}

fn main() {}
