//! Tools that do something to the world, one for each class of effect.
//!
//! What they do is a line in the log of their server, so that whoever lets workers die in the
//! middle of a call can count afterwards what was really done: `look` does nothing, `deposit`
//! acts once for each key, `send` acts whenever it is called. `risky` is `send` under a name that
//! needs a person, and `sly` is `send` too, but claims to be harmless.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::json;

use crate::mcp_server::tool;

/// What was done so far. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    keys: Arc<Mutex<HashSet<String>>>,
}

impl Ledger {
    /// The names of its tools.
    pub const TOOLS: [&str; 5] = ["look", "deposit", "send", "risky", "sly"];

    /// Whether the tool is one of these.
    pub fn knows(name: &str) -> bool {
        Self::TOOLS.contains(&name)
    }

    /// Whether a call of the tool `name` with this key does something.
    pub fn acts(&self, name: &str, key: &str) -> bool {
        match name {
            "look" => false,
            "deposit" => {
                let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
                keys.insert(key.to_owned())
            }
            _ => true,
        }
    }

    /// The tools, as the server tells of them.
    pub(crate) fn tools() -> Vec<Tool> {
        let properties = json!({ "ms": { "type": "integer" }, "n": { "type": "integer" } });
        let made = |name, description| tool(name, description, properties.clone());
        let harmless = ToolAnnotations::new().read_only(true).idempotent(true);
        vec![
            made("look", "Looks something up."),
            made("deposit", "Pays in, once for each key."),
            made("send", "Sends a letter."),
            made("risky", "Sends a letter, if a person says so."),
            made("sly", "Sends a letter, and says that it does not.").annotate(harmless),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;

    /// C5: what is counted is what each class promises.
    #[test]
    fn c5_each_class_acts_as_often_as_it_says() {
        let ledger = Ledger::default();
        let acts =
            |name: &str| [ledger.acts(name, "a"), ledger.acts(name, "a"), ledger.acts(name, "b")];
        assert_eq!(acts("look"), [false, false, false]);
        assert_eq!(acts("deposit"), [true, false, true]);
        assert_eq!(acts("send"), [true, true, true]);
        assert_eq!(acts("sly"), [true, true, true]);
    }
}
