//! The errors of each vendor, in its own format.

use serde_json::{Value, json};

use super::Vendor;

/// A rule that a request breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Short name of the rule.
    pub rule: &'static str,
    pub status: u16,
    /// The vendor's code, if it has one for this.
    pub code: &'static str,
    /// The vendor's text.
    pub message: String,
}

impl Broken {
    pub(super) fn new(rule: &'static str, message: impl Into<String>) -> Self {
        Self { rule, status: 400, code: "", message: message.into() }
    }

    pub(super) fn code(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// The vendor's answer to it.
    pub(super) fn error(&self, vendor: Vendor) -> VendorError {
        let kind = match vendor {
            Vendor::Gemini => "INVALID_ARGUMENT",
            Vendor::Vllm => "BadRequestError",
            _ => "invalid_request_error",
        };
        VendorError::new(self.status, kind, self.code, &self.message)
    }
}

/// An error of a vendor.
#[derive(Debug, Clone)]
pub(super) struct VendorError {
    pub(super) status: u16,
    kind: &'static str,
    code: &'static str,
    message: String,
    pub(super) headers: Vec<(&'static str, &'static str)>,
}

impl VendorError {
    fn new(status: u16, kind: &'static str, code: &'static str, message: &str) -> Self {
        let message = message.to_owned();
        Self { status, kind, code, message, headers: Vec::new() }
    }

    fn after(self, name: &'static str, wait: &'static str) -> Self {
        Self { headers: vec![(name, wait)], ..self }
    }

    /// The error that a plan asks for; `None` if the vendor has none of this class.
    pub(super) fn of_class(vendor: Vendor, class: &str) -> Option<Self> {
        use Vendor::{
            Anthropic, AnthropicPreserved, Azure, DeepSeek, Gemini, Groq, LlamaCpp, LmStudio,
            Mistral, Ollama, OpenAi, OpenAiChat, OpenRouter, Vllm,
        };
        let claude = matches!(vendor, Anthropic | AnthropicPreserved);
        let local = matches!(vendor, Ollama | Vllm | LlamaCpp | LmStudio);
        Some(match (class, vendor) {
            ("rate_limit" | "key", _) if local => return None,
            ("rate_limit", _) if claude => {
                Self::new(429, "rate_limit_error", "", "Slow down.").after("retry-after", "0")
            }
            ("rate_limit", Gemini) => Self::new(429, "RESOURCE_EXHAUSTED", "", "Retry in 0.1s."),
            ("rate_limit", Mistral) => {
                Self::new(429, "rate_limited", "1300", "Rate limit exceeded")
            }
            ("rate_limit", _) => Self::new(429, "requests", "rate_limit_exceeded", "Slow down.")
                .after("retry-after-ms", "10"),
            ("money", OpenAi | OpenAiChat | Azure) => {
                let message = "You have no credits left. Add some to go on.";
                Self::new(429, "billing", "credit_balance_exhausted", message)
            }
            ("spend_limit", OpenAi | OpenAiChat) => {
                let message = "Your project has reached its limit for this month.";
                Self::new(429, "requests", "project_spend_limit_exceeded", message)
            }
            ("spend_limit", _) if claude => {
                let message = "This workspace has reached its limit for this month.";
                Self::new(429, "rate_limit_error", "enforced_spend_limit_reached", message)
            }
            ("money", _) if claude => Self::new(402, "billing_error", "", "Pay first."),
            ("money", DeepSeek | OpenRouter) => {
                Self::new(402, "unknown_error", "invalid_request_error", "Insufficient Balance")
            }
            ("interrupted", Groq) => {
                Self::new(500, "internal_server_error", "", "Something went wrong.")
            }
            ("interrupted", _) => return Self::of_class(vendor, "overloaded"),
            ("overloaded", _) if claude => Self::new(529, "overloaded_error", "", "Overloaded"),
            ("overloaded", Gemini) => Self::new(503, "UNAVAILABLE", "", "Try again later."),
            ("overloaded", Groq) => {
                Self::new(498, "invalid_request_error", "flex_capacity_exceeded", "No capacity.")
            }
            ("overloaded", LlamaCpp) => Self::new(503, "unavailable_error", "", "Loading model"),
            ("overloaded", OpenRouter) => Self::new(502, "", "", "Provider returned error"),
            ("overloaded", _) => {
                Self::new(503, "service_unavailable_error", "server_is_overloaded", "Overloaded")
            }
            ("key", Gemini) => Self::new(401, "UNAUTHENTICATED", "", "No valid credential."),
            ("key", _) if claude => Self::new(401, "authentication_error", "", "invalid x-api-key"),
            ("key", _) => {
                Self::new(401, "invalid_request_error", "invalid_api_key", "No such key.")
            }
            ("context", _) if claude => {
                let message = "prompt is too long: 200001 tokens > 200000 maximum";
                Self::new(400, "invalid_request_error", "", message)
            }
            ("context", Groq) => {
                Self::new(413, "tokens", "request_too_large", "Request too large for model")
            }
            ("context", LlamaCpp) => {
                let message = "the request exceeds the available context size";
                Self::new(400, "exceed_context_size_error", "", message)
            }
            ("context", OpenAi | OpenAiChat | Azure) => {
                let message = "Your input exceeds the context window of this model.";
                Self::new(400, "invalid_request_error", "context_length_exceeded", message)
            }
            ("filter", Azure) => Self::new(400, "", "content_filter", "The prompt was filtered."),
            ("malformed_call", Groq) => {
                let message = "Failed to call a function. See 'failed_generation'.";
                Self::new(400, "invalid_request_error", "tool_use_failed", message)
            }
            _ => return None,
        })
    }

    /// The error in the vendor's format.
    pub(super) fn body(&self, vendor: Vendor) -> Value {
        let Self { status, kind, code, message, .. } = self;
        let code = (!code.is_empty()).then_some(code);
        match vendor {
            Vendor::Anthropic | Vendor::AnthropicPreserved => {
                let mut error = json!({ "type": kind, "message": message });
                if let (Some(code), Some(fields)) = (code, error.as_object_mut()) {
                    fields.insert("code".to_owned(), json!(code));
                }
                json!({ "type": "error", "error": error, "request_id": "req_011" })
            }
            Vendor::Gemini => {
                json!([{ "error": { "code": status, "message": message, "status": kind } }])
            }
            Vendor::Mistral if *status == 422 => json!({ "detail": [{
                "type": "extra_forbidden",
                "loc": ["body", message],
                "msg": "Extra inputs are not permitted",
            }] }),
            Vendor::Mistral => json!({
                "object": "error", "message": message, "type": kind, "param": null, "code": code,
            }),
            Vendor::Xai => json!({ "code": code.unwrap_or(kind), "error": message }),
            Vendor::OpenRouter => {
                json!({ "error": { "code": status, "message": message, "metadata": {} } })
            }
            Vendor::LlamaCpp | Vendor::Vllm => {
                json!({ "error": { "code": status, "message": message, "type": kind } })
            }
            Vendor::LmStudio => json!({ "error": message }),
            Vendor::Azure if code == Some(&"content_filter") => json!({ "error": {
                "message": message, "type": null, "param": "prompt", "code": code, "status": 400,
                "innererror": { "code": "ResponsibleAIPolicyViolation" },
            } }),
            Vendor::OpenAi
            | Vendor::OpenAiChat
            | Vendor::Azure
            | Vendor::DeepSeek
            | Vendor::Groq
            | Vendor::Ollama => json!({
                "error": { "message": message, "type": kind, "param": null, "code": code },
            }),
        }
    }
}
