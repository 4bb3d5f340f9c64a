//! API keys and other secrets, which must not be logged.

pub use turnwire_contract::SecretText as Secret;

/// Parts of the names of headers, variables and parameters of the settings whose values are
/// secrets. Others, such as the name of a team or a path, occur in results.
const SECRET_NAMES: [&str; 8] =
    ["auth", "cookie", "credential", "key", "passphrase", "password", "secret", "token"];

/// Returns whether what has this name in the settings is a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}
