//! `on_assistant_message_added` is a signal; what the message says comes to the others.

fn main() {
    let _ = turnwire::MessageCallbacks::new().on_assistant_message_added(|_content, _calls| ());
}
