//! How likely each token was, as the APIs of `OpenAI` and those like them tell it.

use serde::Deserialize;
use turnwire_contract::{Logprob, ModelPart};

/// So many digits behind the point are kept: more than any provider means, and few enough to be
/// read back from a journal to the last bit.
const PRECISION: f64 = 1e9;

/// A token as it is written.
#[derive(Debug, Deserialize)]
pub(crate) struct LogprobBody {
    #[serde(default)]
    token: String,
    #[serde(default)]
    logprob: Option<f64>,
    #[serde(default)]
    bytes: Option<Vec<u8>>,
    #[serde(default)]
    top_logprobs: Option<Vec<LogprobBody>>,
}

impl LogprobBody {
    /// The alternatives of an alternative are nobody's business.
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

/// The part that tells of these tokens, if there are any.
pub(crate) fn part_of(tokens: Option<Vec<LogprobBody>>) -> Option<ModelPart> {
    let tokens = tokens.filter(|tokens| !tokens.is_empty())?;
    Some(ModelPart::Logprobs(tokens.into_iter().map(|token| token.read(true)).collect()))
}
