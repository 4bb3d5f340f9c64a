//! Tools with side effects, one for each effect class.
//!
//! Each effect is a line in the server's log, so that a test that kills workers can count the real
//! effects: `look` has none, `deposit` acts once per key, `send` acts on every call. `risky` is
//! `send` with an approval, and `sly` is `send` that claims to be harmless.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::json;

use crate::mcp_tool::tool;

/// The effects so far. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    keys: Arc<Mutex<HashSet<String>>>,
}

impl Ledger {
    /// The names of its tools.
    pub const TOOLS: [&str; 5] = ["look", "deposit", "send", "risky", "sly"];

    /// Returns whether `name` is one of these tools.
    pub fn knows(name: &str) -> bool {
        Self::TOOLS.contains(&name)
    }

    /// Returns whether a call of the tool `name` with this key has an effect, and records it.
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

    /// Returns the tools as the server lists them.
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

    /// C5: each effect class acts as often as it promises.
    #[test]
    fn each_class_acts_as_often_as_it_says() {
        let ledger = Ledger::default();
        let acts =
            |name: &str| [ledger.acts(name, "a"), ledger.acts(name, "a"), ledger.acts(name, "b")];
        assert_eq!(acts("look"), [false, false, false]);
        assert_eq!(acts("deposit"), [true, false, true]);
        assert_eq!(acts("send"), [true, true, true]);
        assert_eq!(acts("sly"), [true, true, true]);
    }
}
