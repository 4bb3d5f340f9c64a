//! The parts of the harness that need a real database.

mod evidence;
mod lost_answers;
