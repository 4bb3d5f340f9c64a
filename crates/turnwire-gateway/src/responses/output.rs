//! A response as it goes to the client: as a stream of events, or as one object.

use axum::{http::HeaderMap, response::Response as HttpResponse};
use serde::Deserialize;
use turnwire_contract::EventStream;
use turnwire_surfaces::responses::{Profile, ResponseEvent, Responses, SequencedEvent};
use utoipa::IntoParams;

use crate::{
    api_error::{ApiError, Result},
    app::App,
    sse::{SseFrame, event_stream, write_done},
    streaming::{ProjectedFrame, frames},
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
pub(crate) fn profile(headers: &HeaderMap, params: &ProfileParams) -> Result<Profile> {
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
    event_stream(app, frames(Responses::new(profile), events), write_after(after))
}

/// Writes the events after `after`, and what follows the last one.
pub(super) fn write_after(
    after: Option<u64>,
) -> impl FnMut(&mut Vec<u8>, ProjectedFrame<SequencedEvent>) {
    move |out, (_, event)| {
        if after.is_none_or(|after| event.sequence_number > after) {
            SseFrame::begin(out).event(event.event_type()).json(&event);
        }
        if is_terminal(&event) {
            write_done(out);
        }
    }
}

/// Whether no event follows.
pub(super) fn is_terminal(frame: &SequencedEvent) -> bool {
    matches!(
        frame.event,
        ResponseEvent::Completed(_) | ResponseEvent::Failed(_) | ResponseEvent::Incomplete(_)
    )
}
