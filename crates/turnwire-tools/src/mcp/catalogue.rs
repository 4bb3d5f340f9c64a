//! How much a server may say of its tools. All of it is sent to the model with every turn, is in
//! memory for every server, and is stored for every tenant that uses the tools.

use std::sync::Arc;

use tracing::warn;
use turnwire_contract::ToolSpec;

use super::connection::ToolSpecs;

/// Maximum length of a description.
const MAX_DESCRIPTION: usize = 4 * 1024;

/// Maximum size of one tool: name, title, description and schema.
const MAX_TOOL: usize = 64 * 1024;

/// Maximum size of the tools of one server.
const MAX_SERVER: usize = 1024 * 1024;

/// Follows the beginning of a description.
const CUT: &str = " … [The rest of this description was left out, it is too long.]";

/// How many names of tools a message has.
const NAMES_SHOWN: usize = 5;

/// Returns the tools that there is room for: of those that are not too large, the first.
pub(super) fn bounded(label: &str, specs: impl Iterator<Item = ToolSpec>) -> ToolSpecs {
    let (mut kept, mut n_bytes) = (Vec::new(), 0);
    let (mut cut, mut too_large, mut no_room) =
        (Names::default(), Names::default(), Names::default());
    for mut spec in specs {
        if cut_description(&mut spec) {
            cut.add(&spec.name);
        }
        let of_tool = spec.catalogue_bytes();
        if of_tool > MAX_TOOL {
            too_large.add(&spec.name);
        } else if no_room.count > 0 || n_bytes + of_tool > MAX_SERVER {
            no_room.add(&spec.name);
        } else {
            n_bytes += of_tool;
            kept.push(Arc::new(spec));
        }
    }
    for (names, max_bytes, what) in [
        (cut, MAX_DESCRIPTION, "descriptions of MCP tools cut, they are too long"),
        (too_large, MAX_TOOL, "MCP tools left out, each is too large"),
        (no_room, MAX_SERVER, "MCP tools left out, the server has too many bytes of tools"),
    ] {
        if names.count > 0 {
            let Names { count, first } = names;
            warn!(server = %label, count, max_bytes, tools = ?first, "{what}");
        }
    }
    kept.into()
}

/// Returns whether the description was too long.
fn cut_description(spec: &mut ToolSpec) -> bool {
    let text = &mut spec.description;
    if text.len() <= MAX_DESCRIPTION {
        return false;
    }
    text.truncate(text.floor_char_boundary(MAX_DESCRIPTION - CUT.len()));
    text.push_str(CUT);
    text.shrink_to_fit();
    true
}

/// How many tools, and the names of the first.
#[derive(Default)]
struct Names {
    count: usize,
    first: Vec<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < NAMES_SHOWN {
            self.first.push(name.to_owned());
        }
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
