//! What can go wrong with a request to a server, in plain words.

use std::error::Error;

use serde::Deserialize;

use crate::exit::{Exit, Problem};

/// Why a server did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerError {
    /// There was no answer.
    Unreachable { url: String, cause: String },
    /// The server answered with an error.
    Refused { url: String, status: u16, code: String, message: String },
    /// The server is somewhere else. Redirects are not followed.
    Redirected { url: String, to: String },
    /// Something answered that is no Turnwire server.
    NotTurnwire { url: String },
}

/// Body of an error response.
#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorDetails,
}

#[derive(Deserialize)]
struct ErrorDetails {
    message: String,
    code: Option<String>,
}

impl ServerError {
    pub(super) fn unreachable(url: String, error: &reqwest::Error) -> Self {
        // The last cause has the details; the first repeats the address.
        let causes = std::iter::successors(error.source(), |cause| (*cause).source());
        let cause = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
        Self::Unreachable { url, cause }
    }

    pub(super) fn refused(url: String, status: u16, body: &str) -> Self {
        match serde_json::from_str::<ErrorBody>(body) {
            Ok(ErrorBody { error: ErrorDetails { message, code } }) => {
                Self::Refused { url, status, code: code.unwrap_or_default(), message }
            }
            // A proxy that has no server behind it answers with pages.
            Err(_) if status >= 500 => {
                Self::Unreachable { url, cause: format!("the answer was status {status}") }
            }
            Err(_) => Self::NotTurnwire { url },
        }
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => *status == 429 || *status >= 500,
            Self::Redirected { .. } | Self::NotTurnwire { .. } => false,
        }
    }

    /// The code of an error that the server answered with.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::Unreachable { .. } | Self::Redirected { .. } | Self::NotTurnwire { .. } => "",
        }
    }
}

impl From<ServerError> for Problem {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Unreachable { url, cause } => Self {
                exit: Exit::Unreachable,
                ..Self::failure(format!("cannot reach the server at {url}: {cause}"))
            }
            .hint("start one with `turnwire serve`, or name another with --server URL"),
            ServerError::Redirected { url, to } => {
                Self::usage(format!("the server at {url} redirects to {to}"))
                    .hint("redirects are not followed; name that address with --server")
            }
            ServerError::NotTurnwire { url } => {
                Self::usage(format!("what answers at {url} is not a Turnwire server"))
                    .hint("name its address with --server URL, or TURNWIRE_SERVER")
            }
            ServerError::Refused { url, status: 401, code, .. } => {
                let problem = if code == "missing_api_key" {
                    Self::usage(format!("the server at {url} needs an API key"))
                } else {
                    Self::usage(format!("the server at {url} refused the API key"))
                };
                problem
                    .hint(format!("save one with `turnwire login --server {url}`"))
                    .hint("or put it into TURNWIRE_API_KEY")
            }
            ServerError::Refused { status: 404, message, .. } => {
                Self::failure(message).hint("`turnwire runs list` shows the runs of the server")
            }
            ServerError::Refused { message, .. } => Self::failure(message),
        }
    }
}
