//! The files that a conversation names, put into the question to the model.
//!
//! A run keeps the address of a file and not what is in it: otherwise each tiny request that names
//! a big file would cost its size, in memory for as long as the run lives and on disk for as long as
//! it is kept. So files are read when the model is asked, by whichever worker asks. All questions
//! of a process together have room for so many bytes of files; who finds none waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use turnwire_contract::{
    Content, FileId, Image, Item, Library, LibraryAddress, LibraryError, Prompt, RunRequest,
};

/// How room is counted: a semaphore has too few places for bytes.
const ROOM_UNIT: usize = 1024;

/// Puts files into questions.
pub(crate) struct PromptFiles {
    library: Option<Arc<dyn Library>>,
    max_bytes: usize,
    room: Arc<Semaphore>,
}

/// The room that the files of a question take, for as long as it is being sent.
#[derive(Debug, Default)]
pub(crate) struct Room {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Why a question cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileProblem {
    /// A file that the run was given is not there any more.
    Gone(FileId),
    /// All files of the conversation together are too much.
    TooMuch(usize),
    /// The library does not answer.
    Away(String),
}

impl PromptFiles {
    /// Files of `library`, so many bytes of them at once.
    pub(crate) fn new(library: Option<Arc<dyn Library>>, max_bytes: usize) -> Self {
        let room = Arc::new(Semaphore::new(max_bytes.div_ceil(ROOM_UNIT)));
        Self { library, max_bytes, room }
    }

    /// Puts the files that `prompt` names into it. A file of an earlier turn that is not there any
    /// more is replaced by words that say so: it must not end the conversation.
    pub(crate) async fn fill(
        &self,
        request: &RunRequest,
        prompt: &mut Prompt,
    ) -> Result<Room, FileProblem> {
        let mut mentions: BTreeMap<FileId, usize> = BTreeMap::new();
        for address in prompt.items.iter().flat_map(|item| addresses_in(item)) {
            *mentions.entry(address.file_id).or_default() += 1;
        }
        if mentions.is_empty() {
            return Ok(Room::default());
        }
        let there = self.sizes_of(request, mentions.keys()).await?;
        let n_bytes = |(id, n_mentions): (&FileId, &usize)| {
            there.get(id).map_or(0, |size| size.saturating_mul(4) / 3 * n_mentions)
        };
        let n_bytes = mentions.iter().map(n_bytes).fold(0_usize, usize::saturating_add);
        if n_bytes > self.max_bytes {
            return Err(FileProblem::TooMuch(self.max_bytes));
        }
        let room = self.room_for(n_bytes).await;
        let contents = self.read(request, there.into_keys()).await?;
        for item in &mut prompt.items {
            if addresses_in(item).next().is_some() {
                *item = Arc::new(filled(item, &contents));
            }
        }
        Ok(room)
    }

    /// How big those of the files are that are there.
    async fn sizes_of(
        &self,
        request: &RunRequest,
        ids: impl Iterator<Item = &FileId>,
    ) -> Result<BTreeMap<FileId, usize>, FileProblem> {
        let given: BTreeSet<FileId> =
            request.input.iter().flat_map(addresses_in).map(|address| address.file_id).collect();
        let mut sizes = BTreeMap::new();
        for id in ids {
            match self.library()?.file(&request.tenant, id).await {
                Ok(file) => {
                    sizes.insert(id.clone(), usize::try_from(file.bytes).unwrap_or(usize::MAX));
                }
                Err(LibraryError::Unavailable(why)) => return Err(FileProblem::Away(why)),
                Err(_) if given.contains(id) => return Err(FileProblem::Gone(id.clone())),
                Err(_) => {}
            }
        }
        Ok(sizes)
    }

    async fn room_for(&self, n_bytes: usize) -> Room {
        let units = u32::try_from(n_bytes.div_ceil(ROOM_UNIT)).unwrap_or(u32::MAX);
        // It is never closed.
        Room { _permit: Arc::clone(&self.room).acquire_many_owned(units).await.ok() }
    }

    /// The files in base64. One that has gone in this very moment is missing.
    async fn read(
        &self,
        request: &RunRequest,
        ids: impl Iterator<Item = FileId>,
    ) -> Result<BTreeMap<FileId, String>, FileProblem> {
        let mut contents = BTreeMap::new();
        for id in ids {
            match self.library()?.content(&request.tenant, &id).await {
                Ok(content) => {
                    contents.insert(id, STANDARD.encode(&content));
                }
                Err(LibraryError::Unavailable(why)) => return Err(FileProblem::Away(why)),
                Err(_) => {}
            }
        }
        Ok(contents)
    }

    fn library(&self) -> Result<&dyn Library, FileProblem> {
        let nothing = || FileProblem::Away("there is no library".to_owned());
        self.library.as_deref().ok_or_else(nothing)
    }
}

impl fmt::Debug for PromptFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptFiles").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

/// The files that an item names, each mention once.
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

/// The item with the files that it names.
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

/// What the model is told in place of a file that is not there any more.
fn gone(file_id: &FileId) -> String {
    format!("[the file `{file_id}` was here; it has been deleted and cannot be shown any more]")
}
