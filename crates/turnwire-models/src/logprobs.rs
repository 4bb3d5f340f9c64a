//! Log probabilities in the format of OpenAI and compatible APIs.

use serde::Deserialize;
use turnwire_contract::{Logprob, ModelPart};

/// Values are rounded to nine decimals. That is more precise than any provider, and short enough to
/// survive a round trip through the journal exactly.
const PRECISION: f64 = 1e9;

/// A token in a response.
#[derive(Debug, Deserialize)]
pub(crate) struct LogprobBody {
    #[serde(default)]
    token: String,
    logprob: Option<f64>,
    bytes: Option<Vec<u8>>,
    top_logprobs: Option<Vec<LogprobBody>>,
}

impl LogprobBody {
    /// Alternatives of an alternative are ignored.
    fn read(self, with_top: bool) -> Logprob {
        let top = self.top_logprobs.filter(|_| with_top).unwrap_or_default();
        Logprob {
            token: self.token,
            logprob: rounded(self.logprob.unwrap_or(0.0)),
            bytes: self.bytes,
            top: top.into_iter().map(|token| token.read(false)).collect(),
        }
    }
}

fn rounded(logprob: f64) -> f64 {
    (logprob * PRECISION).round() / PRECISION
}

/// Returns the part for these tokens, if there are any.
pub(crate) fn part_of(tokens: Option<Vec<LogprobBody>>) -> Option<ModelPart> {
    let tokens = tokens.filter(|tokens| !tokens.is_empty())?;
    Some(ModelPart::Logprobs(tokens.into_iter().map(|token| token.read(true)).collect()))
}
