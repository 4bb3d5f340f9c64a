//! What can be done, one file per command.

pub(crate) mod run;
pub(crate) mod serve;
