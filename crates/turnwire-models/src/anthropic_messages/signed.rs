//! Which reasoning may be given back.
//!
//! Newer models bind their reasoning to everything before it: system prompt, tools and messages.
//! One block that no longer fits makes them refuse the request. So each seal names, as a hash, what
//! its answer was made over. If something before it has changed, all reasoning up to there is left
//! out: none may be missing between others.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::seal::short;

/// A message that may contain reasoning.
pub(super) trait Signed: Serialize {
    /// Returns what the reasoning in it was made over; empty if that is not known.
    fn made_over(&self) -> Option<&str>;

    /// Returns the message as it is without its reasoning.
    fn without_reasoning(&self) -> impl Serialize;

    fn leave_out_reasoning(&mut self);
}

/// Leaves out the reasoning that no longer fits, in a request that begins with `head`. Returns the
/// hash of the request.
pub(super) fn keep_what_fits(head: &impl Serialize, messages: &mut [impl Signed]) -> String {
    let mut bare = Sha256::new();
    add(&mut bare, head);
    let before_messages = bare.clone();
    // An answer with nothing signed before it is made over a prompt without reasoning.
    let mut first = None;
    for (place, message) in messages.iter().enumerate() {
        if let Some(made_over) = message.made_over()
            && (made_over == short(bare.clone()) || made_over.is_empty() && first.is_none())
        {
            first = Some(place);
        }
        add_bare(&mut bare, message);
    }
    let Some(first) = first else {
        messages.iter_mut().for_each(Signed::leave_out_reasoning);
        return short(bare);
    };
    let mut hash = before_messages;
    let mut fits = true;
    for (place, message) in messages.iter().enumerate() {
        if place < first {
            add_bare(&mut hash, message);
            continue;
        }
        let made_over = message.made_over().filter(|made_over| !made_over.is_empty());
        fits &= made_over.is_none_or(|made_over| made_over == short(hash.clone()));
        add(&mut hash, message);
    }
    let (n_left_out, hash) = if fits { (first, hash) } else { (messages.len(), bare) };
    messages.iter_mut().take(n_left_out).for_each(Signed::leave_out_reasoning);
    short(hash)
}

fn add_bare(hash: &mut Sha256, message: &impl Signed) {
    match message.made_over() {
        Some(_) => add(hash, &message.without_reasoning()),
        None => add(hash, message),
    }
}

fn add(hash: &mut Sha256, value: &impl Serialize) {
    // A request that cannot be written is not sent either.
    let _ = serde_json::to_writer(&mut *hash, value);
    hash.update([0]);
}
