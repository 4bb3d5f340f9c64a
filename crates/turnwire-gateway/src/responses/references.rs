//! Items and files that an input names by their IDs, and how much they may weigh together.

use std::collections::BTreeMap;

use turnwire_contract::{Entry, FileId, Item, ItemId, LibraryAddress, Scope, ToolKind};
use turnwire_surfaces::responses::ids;

use super::request::{FoundFile, References, ResolvedReferences};
use crate::{ApiError, App, Caller, Result};

/// Maximum number of items and files the input may refer to.
const MAX_REFERENCES: usize = 1_000;
/// Maximum size of a text file in a tool output, in bytes. Its text is inlined.
const MAX_TEXT_IN_OUTPUT: usize = 1024 * 1024;

/// Looks up the items and files that an input refers to.
pub(crate) async fn resolve_references(
    app: &App,
    caller: &Caller,
    mut references: References,
    entries: &[Entry],
) -> Result<ResolvedReferences> {
    if references.items.len() + references.files.len() > MAX_REFERENCES {
        return Err(too_much(&format!("may name at most {MAX_REFERENCES} items and files")));
    }
    let limits = app.options().requests.clone();
    let mut references_found = ResolvedReferences { limits, ..ResolvedReferences::default() };
    // Each reference is a copy in the input, so each one counts.
    let max_bytes = app.options().requests.file_bytes;
    let mut room = Room { max_bytes, left: max_bytes };
    let mentions = |names: &mut Vec<String>| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        names.drain(..).for_each(|name| *counts.entry(name).or_default() += 1);
        counts
    };
    if !references.items.is_empty() {
        // Items of the context, and any other stored item of the caller.
        let mentions = mentions(&mut references.items);
        let names = mentions.keys().flat_map(|id| names_of(id)).collect::<Vec<_>>();
        let mut known = app.runs().store().entries_named(caller.tenant(), &names).await?;
        known.extend(entries.iter().cloned());
        for (id, n_mentions) in mentions {
            let items = items_named(&id, &known);
            if !items.is_empty() {
                room.take(items.iter().map(weight).sum::<usize>(), n_mentions)?;
                references_found.items.insert(id, items);
            }
        }
    }
    if !references.files.is_empty() {
        caller.ensure(Scope::Files)?;
    }
    for (id, n_mentions) in mentions(&mut references.files) {
        let file_id = FileId::new(id.as_str());
        // A missing file is reported when the input is read, with its path.
        let Ok(file) = app.library().file(caller.tenant(), &file_id).await else { continue };
        let size = usize::try_from(file.bytes).unwrap_or(usize::MAX);
        room.take(size.saturating_mul(4) / 3, n_mentions)?;
        let media_type = media_type_of(&file.name);
        let is_read_now = references.files_in_outputs.contains(&id)
            && is_text(media_type)
            && size <= MAX_TEXT_IN_OUTPUT;
        let text = if is_read_now { text_of(app, caller, &file_id).await } else { None };
        let url = LibraryAddress { file_id, media_type: media_type.to_owned() }.to_string();
        references_found.files.insert(id, FoundFile { name: file.name, url, text });
    }
    Ok(references_found)
}

/// The content of a file, if it exists and is text.
async fn text_of(app: &App, caller: &Caller, file_id: &FileId) -> Option<String> {
    let content = app.library().content(caller.tenant(), file_id).await.ok()?;
    String::from_utf8(content.to_vec()).ok()
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/") || media_type == "application/json"
}

/// Remaining budget for referenced content, in bytes.
struct Room {
    max_bytes: usize,
    left: usize,
}

impl Room {
    /// Uses the budget for `n_copies` of something of this size.
    fn take(&mut self, size: usize, n_copies: usize) -> Result<()> {
        let left = self.left.checked_sub(size.saturating_mul(n_copies));
        let max_bytes = self.max_bytes;
        self.left = left.ok_or_else(|| {
            too_much(&format!("names more than {max_bytes} bytes of files and items"))
        })?;
        Ok(())
    }
}

fn too_much(what: &str) -> ApiError {
    let status = axum::http::StatusCode::PAYLOAD_TOO_LARGE;
    ApiError::new(status, "input_too_large", format!("The input {what}.")).about("input")
}

/// Approximate size of an item, in bytes.
pub(super) fn weight(item: &Item) -> usize {
    serde_json::to_string(item).map_or(0, |text| text.len())
}

/// IDs of the entries that an item may consist of: a call of a hosted tool is shown together with
/// its result.
fn names_of(id: &str) -> [ItemId; 2] {
    [ItemId::new(id), ids::result_id(&ItemId::new(id))]
}

/// The item with this ID, and its result if both are shown as one.
fn items_named(id: &str, entries: &[Entry]) -> Vec<Item> {
    let find = |name: &ItemId| entries.iter().find(|entry| entry.id == *name);
    let [name, result] = names_of(id);
    let Some(entry) = find(&name) else { return Vec::new() };
    let is_hosted = matches!(&*entry.item, Item::Call { kind, .. }
        if !kind.is_run_by_client() && *kind != ToolKind::Function);
    let result = find(&result).filter(|_| is_hosted);
    [Some(entry), result].into_iter().flatten().map(|entry| Item::clone(&entry.item)).collect()
}

/// The media type of a file, by its extension.
fn media_type_of(name: &str) -> &'static str {
    let extension =
        name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
    match extension.as_str() {
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "json" => "application/json",
        "md" => "text/markdown",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        _ => "text/plain",
    }
}
