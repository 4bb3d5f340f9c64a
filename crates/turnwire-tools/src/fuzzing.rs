//! Entry points for fuzzing: what tool servers send, and documents.

pub use crate::{
    documents::fuzzing::{document_html, document_markdown, document_pdf, document_text, web_page},
    mcp::fuzzing::{mcp_message, mcp_tools},
};
