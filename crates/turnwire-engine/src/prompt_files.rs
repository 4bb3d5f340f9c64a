//! Loads the files named in a conversation into the prompt.
//!
//! A run stores file ids, not contents. Otherwise each small request that names a large file would
//! cost its size in memory and on disk. Files are read when the model is called. A process-wide
//! limit bounds the bytes of files in all prompts; further prompts wait for a permit.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use turnwire_contract::{
    Content, FileId, Image, Item, Library, LibraryAddress, LibraryError, Prompt, RunRequest,
    partial_debug,
};

/// Bytes per permit. A semaphore does not have enough permits to count single bytes.
const CAPACITY_UNIT: usize = 1024;

/// Loads files into prompts.
pub(crate) struct PromptFiles {
    library: Option<Arc<dyn Library>>,
    max_bytes: usize,
    capacity: Arc<Semaphore>,
}

/// The permits for the files of one prompt, held while it is sent.
#[derive(Debug, Default)]
pub(crate) struct FilePermit {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Why files cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileError {
    /// An input file of the run was deleted.
    Deleted(FileId),
    /// The files together exceed the limit.
    TooLarge(usize),
    /// The library is unavailable.
    Unavailable(String),
}

impl PromptFiles {
    /// Loads files from `library`, at most `max_bytes` at once.
    pub(crate) fn new(library: Option<Arc<dyn Library>>, max_bytes: usize) -> Self {
        let capacity = Arc::new(Semaphore::new(max_bytes.div_ceil(CAPACITY_UNIT)));
        Self { library, max_bytes, capacity }
    }

    /// Loads the files named in `prompt`. A deleted file of an earlier turn is replaced by a note,
    /// so that the conversation can continue.
    pub(crate) async fn fill(
        &self,
        request: &RunRequest,
        prompt: &mut Prompt,
    ) -> Result<FilePermit, FileError> {
        let mut mentions: BTreeMap<FileId, usize> = BTreeMap::new();
        for address in prompt.items.iter().flat_map(|item| addresses_in(item)) {
            *mentions.entry(address.file_id).or_default() += 1;
        }
        if mentions.is_empty() {
            return Ok(FilePermit::default());
        }
        let there = self.sizes_of(request, mentions.keys()).await?;
        let n_bytes = |(id, n_mentions): (&FileId, &usize)| {
            there.get(id).map_or(0, |size| size.saturating_mul(4) / 3 * n_mentions)
        };
        let n_bytes = mentions.iter().map(n_bytes).fold(0_usize, usize::saturating_add);
        if n_bytes > self.max_bytes {
            return Err(FileError::TooLarge(self.max_bytes));
        }
        let permit = self.acquire(n_bytes).await;
        let contents = self.read(request, there.into_keys()).await?;
        for item in &mut prompt.items {
            if addresses_in(item).next().is_some() {
                *item = Arc::new(filled(item, &contents));
            }
        }
        Ok(permit)
    }

    /// Returns the sizes of the existing files.
    async fn sizes_of(
        &self,
        request: &RunRequest,
        ids: impl Iterator<Item = &FileId>,
    ) -> Result<BTreeMap<FileId, usize>, FileError> {
        let given: BTreeSet<FileId> =
            request.input.iter().flat_map(addresses_in).map(|address| address.file_id).collect();
        let mut sizes = BTreeMap::new();
        for id in ids {
            match self.library()?.file(&request.tenant, id).await {
                Ok(file) => {
                    sizes.insert(id.clone(), usize::try_from(file.bytes).unwrap_or(usize::MAX));
                }
                Err(LibraryError::Unavailable(why)) => return Err(FileError::Unavailable(why)),
                Err(_) if given.contains(id) => return Err(FileError::Deleted(id.clone())),
                Err(_) => {}
            }
        }
        Ok(sizes)
    }

    async fn acquire(&self, n_bytes: usize) -> FilePermit {
        let units = u32::try_from(n_bytes.div_ceil(CAPACITY_UNIT)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        FilePermit { _permit: Arc::clone(&self.capacity).acquire_many_owned(units).await.ok() }
    }

    /// Returns the files in base64. A file deleted meanwhile is missing.
    async fn read(
        &self,
        request: &RunRequest,
        ids: impl Iterator<Item = FileId>,
    ) -> Result<BTreeMap<FileId, String>, FileError> {
        let mut contents = BTreeMap::new();
        for id in ids {
            match self.library()?.content(&request.tenant, &id).await {
                Ok(content) => {
                    contents.insert(id, STANDARD.encode(&content));
                }
                Err(LibraryError::Unavailable(why)) => return Err(FileError::Unavailable(why)),
                Err(_) => {}
            }
        }
        Ok(contents)
    }

    fn library(&self) -> Result<&dyn Library, FileError> {
        let nothing = || FileError::Unavailable("there is no library".to_owned());
        self.library.as_deref().ok_or_else(nothing)
    }
}

partial_debug!(PromptFiles { max_bytes });

/// Returns every file reference in an item.
fn addresses_in(item: &Item) -> impl Iterator<Item = LibraryAddress> {
    let (content, images): (&[Content], &[Image]) = match item {
        Item::Message { content, .. } => (content, &[]),
        Item::CallResult { images, .. } => (&[], images),
        Item::Reasoning { .. } | Item::Call { .. } => (&[], &[]),
    };
    let in_content = content.iter().filter_map(|part| match part {
        Content::Image { url, .. } | Content::File { url, .. } => LibraryAddress::of(url),
        Content::Text { .. } | Content::Refusal { .. } => None,
    });
    in_content.chain(images.iter().filter_map(|image| LibraryAddress::of(&image.base64)))
}

/// Returns the item with file contents inserted.
fn filled(item: &Item, contents: &BTreeMap<FileId, String>) -> Item {
    let mut item = item.clone();
    match &mut item {
        Item::Message { content, .. } => {
            for part in content {
                fill_part(part, contents);
            }
        }
        Item::CallResult { output, images, .. } => {
            images.retain_mut(|image| {
                let Some(LibraryAddress { file_id, media_type }) =
                    LibraryAddress::of(&image.base64)
                else {
                    return true;
                };
                let Some(base64) = contents.get(&file_id) else {
                    output.push('\n');
                    output.push_str(&gone(&file_id));
                    return false;
                };
                *image = Image { media_type, base64: base64.clone() };
                true
            });
        }
        Item::Reasoning { .. } | Item::Call { .. } => {}
    }
    item
}

fn fill_part(part: &mut Content, contents: &BTreeMap<FileId, String>) {
    let (Content::Image { url, .. } | Content::File { url, .. }) = &mut *part else { return };
    let Some(LibraryAddress { file_id, media_type }) = LibraryAddress::of(url) else { return };
    match contents.get(&file_id) {
        Some(base64) => *url = format!("data:{media_type};base64,{base64}"),
        None => *part = Content::text(gone(&file_id)),
    }
}

/// Note to the model in place of a deleted file.
fn gone(file_id: &FileId) -> String {
    format!("[the file `{file_id}` was here; it has been deleted and cannot be shown any more]")
}
