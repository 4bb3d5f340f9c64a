//! Entry points for fuzzing: the settings file, and PDFs.

use std::panic;

use turnwire_tools::fuzzing;

use crate::commands::read::pdf_text;
pub use crate::settings::fuzzing::settings;

/// A PDF. What the library panics of is not told.
pub fn document_pdf(bytes: &[u8]) {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    fuzzing::document_pdf(bytes, pdf_text);
    panic::set_hook(hook);
}
