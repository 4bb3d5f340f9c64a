//! `on_tool_start` is told the tool's name and nothing else.

fn ask(agent: &turnwire::Agent) {
    let _ = agent.stream_chat("Go.").on_tool_start(|_name, _result| ());
}

fn main() {}
