//! Common wording of errors, and values that several sections have.

use std::collections::BTreeSet;

use turnwire_contract::{ApiKey, Scope, TenantId};
use turnwire_engine::Access;

/// Minimum Jaro-Winkler similarity for a suggestion.
const ALIKE: f64 = 0.8;

/// Suggests the most similar known word, or lists all of them.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let likeness = |known: &str| strsim::jaro_winkler(word, known);
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest {
        Some(nearest) if likeness(nearest) >= ALIKE => format!("did you mean `{nearest}`?"),
        _ => one_of(known),
    }
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
    format!("`{text}` is not an address; it should look like {example}")
}

pub(super) fn not_set(variable: &str) -> String {
    format!("the environment variable `{variable}` is not set")
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
    for (name, why) in names.iter().filter_map(|name| Some((name, ApiKey::check_name(name).err()?)))
    {
        mistakes.push(format!("{path}.tenants: `{name}` {why}"));
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
