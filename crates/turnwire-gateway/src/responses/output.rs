//! A response as it goes to the client: as a stream of events, or as one object.

use axum::{http::HeaderMap, response::Response as HttpResponse};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use serde::Deserialize;
use turnwire_contract::{EventStream, JournalError};
use turnwire_surfaces::{
    responses::{Profile, ResponseEvent, Responses, SequencedEvent},
    wire_json,
};
use utoipa::IntoParams;

use crate::{
    api_error::ApiError,
    app::App,
    sse::{SseFrame, event_stream},
    streaming::{CancelOnDrop, ProjectedFrame, frames},
};

/// Header that selects the profile.
const PROFILE_HEADER: &str = "turnwire-profile";

/// The profile as a query parameter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProfileParams {
    /// Set of stream events: `strict` sends only official event types, `extended` adds Turnwire's
    /// own. The `Turnwire-Profile` header takes precedence. Default: `strict`.
    pub(crate) profile: Option<String>,
}

/// The profile of a request, from its header or query (R1).
pub(crate) fn profile(headers: &HeaderMap, params: &ProfileParams) -> Result<Profile, ApiError> {
    let header = headers.get(PROFILE_HEADER).and_then(|value| value.to_str().ok());
    match header.or(params.profile.as_deref()) {
        None | Some("strict") => Ok(Profile::Strict),
        Some("extended") => Ok(Profile::Extended),
        Some(other) => {
            let message = format!("Unknown profile '{other}'; use `strict` or `extended`.");
            Err(ApiError::bad_request("invalid_value", message).about("profile"))
        }
    }
}

/// The events of a response as a stream, starting after `after`.
pub(super) fn stream_of(
    app: &App,
    profile: Profile,
    events: EventStream,
    after: Option<u64>,
) -> HttpResponse {
    event_stream(app, wire_frames(frames(Responses::new(profile), events), after, None))
}

pub(super) fn wire_frames(
    frames: impl Stream<Item = Result<ProjectedFrame<SequencedEvent>, JournalError>> + Send,
    after: Option<u64>,
    mut guard: Option<CancelOnDrop>,
) -> impl Stream<Item = Result<Bytes, JournalError>> + Send {
    let is_new = move |frame: &SequencedEvent| after.is_none_or(|n| frame.sequence_number > n);
    frames.flat_map(move |told| {
        let ends = told.as_ref().map_or(true, |(_, frame)| is_terminal(frame));
        // If the journal cannot be read the client is told to reconnect; that is not a disconnect.
        if ends && let Some(guard) = &mut guard {
            guard.disarm();
        }
        let (frame, done) = match told {
            Ok((_, frame)) => {
                let done = ends.then(|| SseFrame::data("[DONE]".to_owned()).bytes());
                (is_new(&frame).then(|| Ok(wire_frame(&frame))), done.map(Ok))
            }
            Err(error) => (Some(Err(error)), None),
        };
        stream::iter(frame.into_iter().chain(done))
    })
}

fn wire_frame(frame: &SequencedEvent) -> Bytes {
    SseFrame { event: Some(frame.event_type()), id: None, data: wire_json(frame) }.bytes()
}

/// Whether no event follows.
pub(super) fn is_terminal(frame: &SequencedEvent) -> bool {
    matches!(
        frame.event,
        ResponseEvent::Completed(_) | ResponseEvent::Failed(_) | ResponseEvent::Incomplete(_)
    )
}
