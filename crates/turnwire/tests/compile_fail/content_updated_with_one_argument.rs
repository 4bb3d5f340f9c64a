//! `on_assistant_content_updated` is told the new part and all so far.

fn main() {
    let _ = turnwire::MessageCallbacks::new().on_assistant_content_updated(|_content| ());
}
