//! `on_tool_end` is told the tool's name and its result, nothing else.

fn ask(agent: &turnwire::Agent) {
    let _ = agent.stream_chat("Go.").on_tool_end(|_name, _result, _status| ());
}

fn main() {}
