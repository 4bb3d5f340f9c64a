//! `on_tool_end` is told the tool's name and its result.

fn ask(agent: &turnwire::Agent) {
    let _ = agent.stream_chat("Go.").on_tool_end(|_name| ());
}

fn main() {}
