//! Converts the bytes of a provider to [`ModelPart`]s: the part that is common to all providers.
//!
//! The translator parses frames and their JSON. An unreadable frame is reported and skipped, an
//! answer that is not a stream gives a useful error, and nothing follows the end. The [`Dialect`]
//! interprets the frames. No I/O happens here; [`crate::http`] supplies the bytes.

use memchr::memchr;
use serde::de::DeserializeOwned;
use tracing::warn;
use turnwire_contract::{ModelError, ModelPart};

use crate::{
    lenient_json,
    provider_error::{Fault, ParsedError},
    sse_reader::{Frame, SseReader, TooLong},
};

/// Maximum size of an answer that is not a stream.
const MAX_BODY_BYTES: usize = crate::sse_reader::MAX_FRAME_BYTES;

/// A part, or the fault that ends the stream.
pub(crate) type Translated = Result<ModelPart, Fault>;

/// The format of a provider.
pub(crate) trait Dialect {
    type Chunk: DeserializeOwned;

    /// Interprets a chunk. Returns whether it was the last one.
    fn chunk(&mut self, chunk: Self::Chunk, parts: &mut Vec<ModelPart>) -> Result<Flow, Fault>;

    /// Handles the `[DONE]` marker.
    fn done(&mut self, parts: &mut Vec<ModelPart>) -> Result<(), Fault>;

    /// Handles the end of the connection without a marker. Returns `Ok` if the answer is complete.
    fn cut(&mut self, parts: &mut Vec<ModelPart>) -> Result<(), Truncated>;

    /// Handles an answer that is not a stream. Returns `None` if it is not an answer.
    fn whole(&mut self, body: &str, parts: &mut Vec<ModelPart>) -> Option<Result<(), Fault>>;
}

/// Whether more chunks follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    Over,
}

/// The answer was incomplete at the end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Truncated;

#[derive(Debug)]
pub(crate) struct Translator<D> {
    dialect: D,
    shape: Shape,
    n_understood: usize,
    n_unreadable: usize,
    is_over: bool,
}

/// Format of the body. `Content-Type` is unreliable, so the bytes decide.
#[derive(Debug)]
enum Shape {
    NotYetKnown,
    Stream(SseReader),
    Json(Vec<u8>),
    WebPage,
}

impl<D: Dialect> Translator<D> {
    /// Creates a translator for `dialect`.
    pub(crate) fn new(dialect: D) -> Self {
        Self {
            dialect,
            shape: Shape::NotYetKnown,
            n_understood: 0,
            n_unreadable: 0,
            is_over: false,
        }
    }

    /// Whether the last part was returned. Further bytes are ignored.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Vec<Translated> {
        if self.is_over {
            return Vec::new();
        }
        if matches!(self.shape, Shape::NotYetKnown) {
            bytes = bytes.trim_ascii_start();
            match bytes.first() {
                None => return Vec::new(),
                Some(b'{' | b'[') => self.shape = Shape::Json(Vec::new()),
                Some(b'<') => self.shape = Shape::WebPage,
                Some(_) => self.shape = Shape::Stream(SseReader::default()),
            }
        }
        match &mut self.shape {
            Shape::Stream(reader) => {
                let mut frames = Vec::new();
                let result = reader.push(bytes, &mut frames);
                self.translate(frames, result)
            }
            Shape::Json(body) if body.len() + bytes.len() > MAX_BODY_BYTES => {
                self.end_with(broken("the answer is longer than 4 MiB and not a stream"))
            }
            Shape::Json(body) => {
                body.extend_from_slice(bytes);
                Vec::new()
            }
            Shape::WebPage | Shape::NotYetKnown => Vec::new(),
        }
    }

    /// Handles the end of the bytes. `reason` describes it.
    pub(crate) fn finish(&mut self, reason: &str) -> Vec<Translated> {
        if self.is_over {
            return Vec::new();
        }
        match std::mem::replace(&mut self.shape, Shape::NotYetKnown) {
            Shape::Stream(mut reader) => {
                let mut translated = match reader.finish() {
                    Ok(frame) => self.translate(frame.into_iter().collect(), Ok(())),
                    Err(error) => self.translate(Vec::new(), Err(error)),
                };
                if !self.is_over {
                    translated.extend(self.end_of_stream(reason));
                }
                translated
            }
            Shape::Json(body) => self.end_of_body(&String::from_utf8_lossy(&body), reason),
            Shape::WebPage => {
                let message = "the server answered with a web page; check the base URL".to_owned();
                self.end_with(ModelError::Misconfigured { message }.into())
            }
            Shape::NotYetKnown => self.end_with(broken("the answer was empty")),
        }
    }

    fn translate(&mut self, frames: Vec<Frame>, read: Result<(), TooLong>) -> Vec<Translated> {
        let mut translated = Vec::new();
        for frame in frames {
            let mut parts = Vec::new();
            let result = self.frame(&frame, &mut parts);
            translated.extend(clean(parts));
            match result {
                Ok(Flow::More) => {}
                Ok(Flow::Over) => {
                    self.is_over = true;
                    return translated;
                }
                Err(error) => {
                    translated.extend(self.end_with(error));
                    return translated;
                }
            }
        }
        if let Err(error) = read {
            translated.extend(self.end_with(broken(&error.to_string())));
        }
        translated
    }

    fn frame(&mut self, frame: &Frame, parts: &mut Vec<ModelPart>) -> Result<Flow, Fault> {
        let data = frame.data.trim();
        if data.is_empty() {
            return Ok(Flow::More);
        }
        if data == "[DONE]" {
            self.complain_if_nothing_was_understood()?;
            self.dialect.done(parts)?;
            return Ok(Flow::Over);
        }
        match lenient_json::from_str(data) {
            Ok(chunk) => {
                self.n_understood += 1;
                self.dialect.chunk(chunk, parts)
            }
            Err(error) if frame.event.as_deref() == Some("error") => {
                let (line, column) = (error.line(), error.column());
                warn!(line, column, "provider error in an unknown format");
                Err(ParsedError::of(data.into()).in_mid_stream())
            }
            Err(error) => {
                self.n_unreadable += 1;
                let bytes = data.len() as u64;
                // The parse error would quote the chunk, so it is not logged.
                let (line, column) = (error.line(), error.column());
                warn!(bytes, line, column, "unreadable chunk in the model stream");
                parts.push(ModelPart::Unreadable { bytes });
                Ok(Flow::More)
            }
        }
    }

    fn end_of_stream(&mut self, reason: &str) -> Vec<Translated> {
        if let Err(error) = self.complain_if_nothing_was_understood() {
            return self.end_with(error);
        }
        let mut parts = Vec::new();
        let result = self.dialect.cut(&mut parts);
        let mut translated: Vec<_> = clean(parts).collect();
        self.is_over = true;
        if let Err(Truncated) = result {
            translated.push(Err(broken(reason)));
        }
        translated
    }

    fn end_of_body(&mut self, body: &str, reason: &str) -> Vec<Translated> {
        if let Some(parsed) = ParsedError::in_text(body) {
            return self.end_with(parsed.instead_of_answer());
        }
        let mut parts = Vec::new();
        let result = self.dialect.whole(body, &mut parts);
        let mut translated: Vec<_> = clean(parts).collect();
        match result {
            Some(Ok(())) => self.is_over = true,
            Some(Err(error)) => translated.extend(self.end_with(error)),
            None => {
                let message = format!("the answer is neither a stream nor a whole one; {reason}");
                translated.extend(self.end_with(broken(&message)));
            }
        }
        translated
    }

    fn complain_if_nothing_was_understood(&self) -> Result<(), Fault> {
        match (self.n_understood, self.n_unreadable) {
            (0, 0) => Err(broken("the answer was empty")),
            (0, _) => Err(broken("nothing in the answer could be read")),
            _ => Ok(()),
        }
    }

    fn end_with(&mut self, fault: Fault) -> Vec<Translated> {
        self.is_over = true;
        vec![Err(fault)]
    }
}

/// Returns the fault for a broken or invalid answer.
pub(crate) fn broken(message: &str) -> Fault {
    ModelError::Broken { message: message.to_owned() }.into()
}

/// Returns empty arguments, so that a complete call always has valid JSON.
pub(crate) fn no_arguments(key: u32) -> ModelPart {
    ModelPart::CallArguments { key, text: "{}".to_owned() }
}

/// Removes empty parts, and NUL, which databases and terminals do not support.
fn clean(parts: Vec<ModelPart>) -> impl Iterator<Item = Translated> {
    parts.into_iter().filter_map(|mut part| {
        if let ModelPart::Text(text)
        | ModelPart::Refusal(text)
        | ModelPart::Reasoning(text)
        | ModelPart::CallArguments { text, .. } = &mut part
        {
            if memchr(0, text.as_bytes()).is_some() {
                text.retain(|c| c != '\0');
            }
            if text.is_empty() {
                return None;
            }
        }
        Some(Ok(part))
    })
}
