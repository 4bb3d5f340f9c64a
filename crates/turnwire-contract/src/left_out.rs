//! Tools that a server lists and that the model is not offered, and why.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum number of tools that are named.
const MAX_NAMED: usize = 32;

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 128;

/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 200;

/// How many tools a line names.
const MAX_IN_LINE: usize = 5;

/// Tools of a server that are not offered to the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftOut {
    /// The first of them, at most 32.
    #[serde(default)]
    pub tools: Vec<LeftOutTool>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

/// A tool that is not offered to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftOutTool {
    /// Name of the tool on its server, without control characters, at most 128 bytes of it.
    pub name: String,
    /// Why it is left out, in at most 200 characters.
    pub reason: String,
}

/// Why a tool is not offered to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyLeftOut {
    /// It is the first tool beyond what is read of the list.
    Unread,
    /// Its name cannot be shown.
    Name,
    /// Another tool has its name.
    NameTaken,
    /// It is larger than a tool may be.
    TooLarge,
    /// It is beyond what the tools of a server may take.
    ServerFull,
    /// It is beyond what the tools of all servers of a run may take.
    RunFull,
    /// Its schema is too large or too complex, as this says.
    Schema(String),
}

impl fmt::Display for WhyLeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unread => {
                "it is beyond the first 1,000 tools, 100 pages or 16 MiB of the list, and what \
                 follows is not offered either"
            }
            Self::Name => "its name is empty, longer than 128 bytes, or has control characters",
            Self::NameTaken => "another tool has its name",
            Self::TooLarge => "its name, title, description and schema have more than 64 KiB",
            Self::ServerFull => "the tools before it take the 1 MiB of a server",
            Self::RunFull => "the tools before it take the 2 MiB of a run",
            Self::Schema(why) => why,
        })
    }
}

impl LeftOut {
    /// Adds a tool.
    pub fn add(&mut self, name: &str, why: &WhyLeftOut) {
        let start = name.get(..name.floor_char_boundary(MAX_NAME)).unwrap_or_default();
        self.tools.push(LeftOutTool {
            name: start.replace(char::is_control, "\u{fffd}"),
            reason: why.to_string().chars().take(MAX_REASON).collect(),
        });
    }

    /// Names no more tools than an event may.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        self.more += self.tools.len().saturating_sub(MAX_NAMED);
        self.tools.truncate(MAX_NAMED);
        self
    }

    /// Whether every tool is offered.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.more == 0
    }
}

/// The first tools with the reasons, and the number of the others, in one line.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, LeftOutTool { name, reason }) in self.tools.iter().take(MAX_IN_LINE).enumerate()
        {
            let before = if index == 0 { "" } else { ", " };
            write!(f, "{before}{name} ({reason})")?;
        }
        match self.more + self.tools.len().saturating_sub(MAX_IN_LINE) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A19: names and reasons are short, and a line has few of them.
    #[test]
    fn what_is_said_of_tools_is_short() {
        let mut left_out = LeftOut::default();
        left_out.add("two\nlines", &WhyLeftOut::Name);
        left_out.add(&"é".repeat(10_000), &WhyLeftOut::Schema("x".repeat(10_000)));
        assert_eq!(left_out.tools[0].name, "two\u{fffd}lines");
        assert_eq!(left_out.tools[1].name, "é".repeat(64));
        assert_eq!(left_out.tools[1].reason.len(), MAX_REASON);
        let mut left_out = LeftOut::default();
        for n in 0..1_000 {
            left_out.add(&format!("tool_{n}"), &WhyLeftOut::NameTaken);
        }
        let left_out = left_out.shortened();
        assert_eq!((left_out.tools.len(), left_out.more), (MAX_NAMED, 968));
        let taken = "(another tool has its name)";
        let named: Vec<String> = (0..MAX_IN_LINE).map(|n| format!("tool_{n} {taken}")).collect();
        assert_eq!(left_out.to_string(), format!("{} and 995 more", named.join(", ")));
    }

    /// No reason is longer than an event may have it.
    #[test]
    fn reasons_fit() {
        let all = [
            WhyLeftOut::Unread,
            WhyLeftOut::Name,
            WhyLeftOut::NameTaken,
            WhyLeftOut::TooLarge,
            WhyLeftOut::ServerFull,
            WhyLeftOut::RunFull,
        ];
        assert!(all.iter().all(|why| why.to_string().len() <= MAX_REASON));
    }
}
