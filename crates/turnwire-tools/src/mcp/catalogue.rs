//! How much a server may say of its tools. All of it is sent to the model with every turn, is in
//! memory for every server, and is stored for every tenant that uses the tools.

use std::sync::Arc;

use tracing::warn;
use turnwire_contract::{LeftOut, ToolSpec, WhyLeftOut};

use super::{connection::ToolSpecs, specs::Unusable};

/// Maximum length of a description.
const MAX_DESCRIPTION: usize = 4 * 1024;

/// Maximum size of one tool: name, title, description and schema.
const MAX_TOOL: usize = 64 * 1024;

/// Maximum size of the tools of one server.
const MAX_SERVER: usize = 1024 * 1024;

/// Follows the beginning of a description.
const CUT: &str = " … [The rest of this description was left out, it is too long.]";

/// Returns the tools that there is room for: of those that are not too large, the first. The others
/// are added to `left_out`.
pub(super) fn bounded(
    label: &str,
    specs: impl Iterator<Item = Result<ToolSpec, Unusable>>,
    left_out: &mut LeftOut,
) -> ToolSpecs {
    let (mut kept, mut n_bytes, mut is_full) = (Vec::new(), 0, false);
    let (mut n_cut, mut first_cut) = (0_usize, None);
    for spec in specs {
        let mut spec = match spec {
            Ok(spec) => spec,
            Err((name, why)) => {
                left_out.add(&name, &why);
                continue;
            }
        };
        if cut_description(&mut spec) {
            n_cut += 1;
            first_cut.get_or_insert_with(|| spec.name.clone());
        }
        let of_tool = spec.catalogue_bytes();
        if of_tool > MAX_TOOL {
            left_out.add(&spec.name, &WhyLeftOut::TooLarge);
            continue;
        }
        is_full |= n_bytes + of_tool > MAX_SERVER;
        if is_full {
            left_out.add(&spec.name, &WhyLeftOut::ServerFull);
        } else {
            n_bytes += of_tool;
            kept.push(Arc::new(spec));
        }
    }
    if let Some(first) = first_cut {
        let max_bytes = MAX_DESCRIPTION;
        warn!(server = %label, count = n_cut, max_bytes, %first, "descriptions of MCP tools cut");
    }
    if !left_out.is_empty() {
        warn!(server = %label, tools = %left_out, "MCP tools left out");
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

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
