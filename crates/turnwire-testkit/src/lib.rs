//! What the tests of every crate lean on.
//!
//! * [`stage`] plays a scripted run in simulated time and returns its journal;
//! * [`props`] are tools that behave in every way a tool can;
//! * [`scenarios`] are the recorded runs that every surface is shown;
//! * [`golden`] compares with what is written down, or writes it down;
//! * [`surfaces`] writes down what each surface shows of a journal;
//! * [`invariants`] reads a journal and says what is wrong with it;
//! * [`scripts`] makes up random runs;
//! * [`conformance`] has one test per promise of a port.
//!
//! Only tests depend on this crate.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on should fall over"
)]

pub mod conformance;
pub mod golden;
pub mod invariants;
pub mod props;
pub mod scenarios;
pub mod scripts;
pub mod stage;
pub mod surfaces;

pub use props::{Behaviour, Prop};
pub use stage::{Act, Played, Stage};
