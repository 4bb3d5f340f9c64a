//! Common wording of errors, and values that several sections have.

use std::{borrow::Cow, collections::BTreeSet};

use turnwire_contract::{ApiKey, Scope, TenantId};
use turnwire_engine::Access;

use crate::environment::Environment;

/// At most so many mistakes are told at once: each is looked for in the file, and nobody reads more.
pub(super) const MOST_TOLD: usize = 100;
/// Longer words are no misspelt settings.
const LONGEST_MEANT: usize = 64;
/// Longer keys are cut where they are told.
const LONGEST_KEY: usize = 128;
/// Longer addresses are not quoted: they may be secrets.
const LONGEST_QUOTED: usize = 60;
/// Minimum Jaro-Winkler similarity for a suggestion.
const ALIKE: f64 = 0.8;

/// Suggests the most similar known word, or lists all of them.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let likeness = |known: &str| strsim::jaro_winkler(word, known);
    let known_if_short = if word.len() <= LONGEST_MEANT { known } else { &[] };
    let nearest = known_if_short.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest {
        Some(nearest) if likeness(nearest) >= ALIKE => format!("did you mean `{nearest}`?"),
        _ => one_of(known),
    }
}

/// The path of a key in the table at `path`, which is empty for the whole file.
pub(super) fn child(path: &str, key: &str) -> String {
    let key = told_key(key);
    if path.is_empty() { key.into_owned() } else { format!("{path}.{key}") }
}

/// A key as it is told in a path.
pub(super) fn told_key(key: &str) -> Cow<'_, str> {
    match key.char_indices().nth(LONGEST_KEY) {
        Some((end, _)) => {
            key_name(&format!("{}…", key.get(..end).unwrap_or_default())).into_owned().into()
        }
        None => key_name(key),
    }
}

/// A key as it is written in a file: in quotes unless it is made of letters, digits, `_` and `-`.
pub(crate) fn key_name(key: &str) -> Cow<'_, str> {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(is_bare) {
        return key.into();
    }
    format!("\"{}\"", key.escape_debug()).into()
}

/// Reports that a key is missing, unless its value was reported already, or another key that is
/// probably meant to be it.
pub(super) fn missing(path: &str, why: &str, mistakes: &mut Vec<String>) {
    let is_meant = path.rsplit_once('.').is_some_and(|(table, key)| {
        let advice = format!("did you mean `{key}`?");
        latest(mistakes).any(|mistake| mistake.starts_with(table) && mistake.ends_with(&advice))
    });
    if !is_meant && !is_told(path, mistakes) {
        mistakes.push(format!("{path}: {why}"));
    }
}

/// Whether something is wrong with the value at `path`, or with a part of it.
pub(super) fn is_told(path: &str, mistakes: &[String]) -> bool {
    latest(mistakes).any(|mistake| {
        mistake.strip_prefix(path).is_some_and(|rest| rest.starts_with([':', '.', '[']))
    })
}

/// The mistakes that may be about the same setting. Of very many, those before are not told twice
/// only by chance, because looking through all for each takes long.
fn latest(mistakes: &[String]) -> impl Iterator<Item = &String> {
    mistakes.iter().rev().take(2 * MOST_TOLD)
}

/// Returns the meaning of a word. If there is none, reports `none`, such as `there is no kind`.
pub(super) fn meaning_of<T: Copy>(
    path: &str,
    none: &str,
    word: &str,
    known: &[(&str, T)],
    mistakes: &mut Vec<String>,
) -> Option<T> {
    let found = known.iter().find(|(name, _)| *name == word);
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let advice = did_you_mean(word, &names);
        mistakes.push(format!("{path}: {none} `{word}`; {advice}"));
    }
    found.map(|(_, meaning)| *meaning)
}

pub(super) fn one_of(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("there are {}", quoted.join(", "))
}

pub(crate) fn is_http_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(' '))
}

pub(super) fn not_a_url(text: &str, example: &str) -> String {
    format!("{} is not an address; it should look like {example}", quoted_url(text))
}

/// Checks an address, if there is one.
pub(super) fn check_url(path: &str, url: Option<&str>, example: &str, mistakes: &mut Vec<String>) {
    if let Some(url) = url.filter(|url| !is_http_url(url)) {
        mistakes.push(format!("{path}: {}", not_a_url(url, example)));
    }
}

/// Checks an address that must not be missing.
pub(super) fn check_needed_url(
    path: &str,
    url: Option<&str>,
    example: &str,
    mistakes: &mut Vec<String>,
) {
    if url.is_none() {
        missing(path, &format!("missing; it should look like {example}"), mistakes);
    }
    check_url(path, url, example, mistakes);
}

/// Quotes an address, unless it may have a secret in it.
pub(super) fn quoted_url(text: &str) -> String {
    if text.contains(['@', '?']) || text.len() > LONGEST_QUOTED {
        return "this".to_owned();
    }
    format!("`{text}`")
}

/// Says that a variable is not set. What cannot be the name of one may be a secret that was
/// written in its place, and is not repeated.
pub(super) fn not_set(variable: &str) -> String {
    if is_variable_name(variable) {
        return unset(variable);
    }
    "not the name of an environment variable; put the secret into a variable, and its name here"
        .to_owned()
}

/// Returns the value of the variable that the setting at `path` names, or reports that there is
/// none.
pub(super) fn value_of<'a>(
    path: &str,
    variable: &str,
    environment: &'a Environment,
    mistakes: &mut Vec<String>,
) -> Option<&'a str> {
    let value = environment.get(variable);
    if value.is_none() {
        mistakes.push(format!("{path}: {}", not_set(variable)));
    }
    value
}

/// Says that a variable of which only the name can be meant is not set.
pub(super) fn unset(variable: &str) -> String {
    format!("the environment variable `{variable}` is not set")
}

/// Whether a text looks like the name of a variable, and not like a key: keys are long, and most
/// have small letters.
fn is_variable_name(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let has_small = text.contains(|c: char| c.is_ascii_lowercase());
    let longest = if has_small { 24 } else { 64 };
    (1..=longest).contains(&text.len()) && text.chars().all(is_word)
}

/// Reads the names of tenants that may use something.
pub(super) fn tenants_of(
    path: &str,
    names: Vec<String>,
    mistakes: &mut Vec<String>,
) -> BTreeSet<TenantId> {
    if names.is_empty() {
        mistakes.push(format!("{path}.tenants: nobody may use it; leave it out for all"));
    }
    for (n, name) in names.iter().enumerate() {
        if let Err(why) = ApiKey::check_name(name) {
            mistakes.push(format!("{path}.tenants[{n}]: `{name}` {why}"));
        }
    }
    names.into_iter().map(TenantId::new).collect()
}

/// Reads the scopes of which somebody needs one to use something.
pub(super) fn scopes_of(
    path: &str,
    names: Vec<String>,
    mistakes: &mut Vec<String>,
) -> BTreeSet<Scope> {
    if names.is_empty() {
        mistakes.push(format!("{path}.scopes: nobody may use it; leave it out for all"));
    }
    let mut scopes = BTreeSet::new();
    for name in names {
        match name.parse::<Scope>() {
            Ok(scope) if scope.is_for_use() && scope != Scope::UseAll => {
                scopes.insert(scope);
            }
            Ok(_) | Err(_) => mistakes.push(format!(
                "{path}.scopes: `{name}` cannot be asked for; it should look like use:research, \
                 with letters, digits and . _ : / -"
            )),
        }
    }
    scopes
}

/// Reads who may use something.
pub(super) fn access_of(
    path: &str,
    tenants: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
    mistakes: &mut Vec<String>,
) -> Access {
    Access {
        tenants: tenants.map(|names| tenants_of(path, names, mistakes)),
        scopes: scopes.map(|names| scopes_of(path, names, mistakes)),
    }
}

/// An amount of money in billionths. It must be at least one.
pub(super) fn nanos(path: &str, amount: f64, mistakes: &mut Vec<String>) -> Option<u64> {
    let nanos = (amount * 1e9).round();
    if (1.0..=1e18).contains(&nanos) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it fits")]
        return Some(nanos as u64);
    }
    mistakes.push(format!("{path}: `{amount}` is not an amount; it should look like 0.50"));
    None
}
