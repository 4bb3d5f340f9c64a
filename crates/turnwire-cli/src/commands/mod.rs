//! The commands, one file each.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod mcp;
pub(crate) mod read_pdf;
pub(crate) mod run;
pub(crate) mod serve;
