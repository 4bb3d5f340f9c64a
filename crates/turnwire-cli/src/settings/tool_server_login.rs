//! `[mcp_servers.NAME.oauth]`: OAuth settings of a server.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use turnwire_tools::{Grant, OAuthOptions, Secret, SigningAlgorithm};

use super::{
    schema::words_of,
    words::{check_url, child, did_you_mean, meaning_of, value_of},
};
use crate::environment::Environment;

/// Example URL for error messages.
const EXAMPLE_URL: &str = "https://turnwire.example.com/client.json";
const PERSON: &str = "person";
const GRANTS: [&str; 2] = [PERSON, "machine"];
const ALGORITHMS: [(&str, SigningAlgorithm); 2] =
    [("ES256", SigningAlgorithm::Es256), ("RS256", SigningAlgorithm::Rs256)];

/// How tokens are obtained for a server with an authorization server. The table may be empty.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLogin {
    /// `"person"`: a person logs in with `turnwire mcp login NAME`; `"machine"`: no person is
    /// needed
    #[schemars(extend("enum" = GRANTS, "default" = PERSON))]
    grant: Option<String>,
    /// The OAuth client id of Turnwire
    client_id: Option<String>,
    /// The variable with the client secret
    client_secret_env_var: Option<String>,
    /// The variable with the private key (PEM), for `"machine"`
    private_key_env_var: Option<String>,
    /// `"ES256"` or `"RS256"`
    #[schemars(extend("enum" = words_of(&ALGORITHMS)))]
    private_key_algorithm: Option<String>,
    /// The URL of a client metadata document
    client_metadata_url: Option<String>,
    /// The scopes to request
    scopes: Option<Vec<String>>,
    /// Where tokens are stored; readable only by you
    token_file: Option<PathBuf>,
    /// The local port for the redirect of the browser
    redirect_port: Option<u16>,
    /// Whether the authorization server may have a private address
    #[schemars(extend("default" = false))]
    private_addresses: Option<bool>,
}

/// The validated table, without values from the environment.
pub(super) struct NamedLogin {
    options: OAuthOptions,
    client_secret_env_var: Option<String>,
    private_key: Option<(String, SigningAlgorithm)>,
}

/// Reads the table of the server at `path`.
pub(super) fn named_login(path: &str, raw: RawLogin, mistakes: &mut Vec<String>) -> NamedLogin {
    let path = format!("{path}.oauth");
    let is_machine = match raw.grant.as_deref() {
        None | Some(PERSON) => false,
        Some("machine") => true,
        Some(word) => {
            let advice = did_you_mean(word, &GRANTS);
            mistakes.push(format!("{path}.grant: there is no `{word}`; {advice}"));
            false
        }
    };
    let (at, url) = (format!("{path}.client_metadata_url"), raw.client_metadata_url.as_deref());
    check_url(&at, url, EXAMPLE_URL, mistakes);
    let algorithm = algorithm(&path, raw.private_key_algorithm.as_deref(), mistakes);
    let has_proof = raw.client_secret_env_var.is_some() || raw.private_key_env_var.is_some();
    if is_machine && (raw.client_id.is_none() || !has_proof) {
        mistakes.push(format!(
            "{path}: a machine needs `client_id`, and `client_secret_env_var` or \
             `private_key_env_var`"
        ));
    }
    if !is_machine && raw.private_key_env_var.is_some() {
        mistakes.push(format!("{path}.private_key_env_var: only `grant = \"machine\"` has it"));
    }
    if raw.client_id.is_none() && raw.client_secret_env_var.is_some() {
        mistakes.push(format!("{path}.client_secret_env_var: its `client_id` is missing"));
    }
    let options = OAuthOptions {
        grant: if is_machine { Grant::ClientCredentials } else { Grant::AuthorizationCode },
        client_id: raw.client_id,
        client_metadata_url: raw.client_metadata_url,
        scopes: raw.scopes.unwrap_or_default(),
        token_file: raw.token_file,
        redirect_port: raw.redirect_port,
        private_addresses: raw.private_addresses.unwrap_or_default(),
        ..OAuthOptions::default()
    };
    let private_key = raw.private_key_env_var.map(|variable| (variable, algorithm));
    NamedLogin { options, client_secret_env_var: raw.client_secret_env_var, private_key }
}

fn algorithm(path: &str, word: Option<&str>, mistakes: &mut Vec<String>) -> SigningAlgorithm {
    let Some(word) = word else { return SigningAlgorithm::Es256 };
    let path = format!("{path}.private_key_algorithm");
    meaning_of(&path, "there is no", word, &ALGORITHMS, mistakes).unwrap_or(SigningAlgorithm::Es256)
}

impl NamedLogin {
    /// Returns the options with values from the environment for the server `label`.
    pub(super) fn with_environment(
        &self,
        label: &str,
        environment: &Environment,
        mistakes: &mut Vec<String>,
    ) -> OAuthOptions {
        let path = format!("{}.oauth", child("mcp_servers", label));
        let mut secret = |key: &str, variable: &str| {
            let path = format!("{path}.{key}");
            value_of(&path, variable, environment, mistakes).map(Secret::from)
        };
        let mut options = self.options.clone();
        if let Some(variable) = &self.client_secret_env_var {
            options.client_secret = secret("client_secret_env_var", variable);
        }
        if let Some((variable, algorithm)) = &self.private_key
            && let Some(key) = secret("private_key_env_var", variable)
        {
            options.grant = Grant::ClientCredentialsWithKey { key, algorithm: *algorithm };
        }
        options.token_file = options.token_file.or_else(|| usual_file(label, environment));
        options
    }
}

/// Returns the default token file, in the state directory of the user.
fn usual_file(label: &str, environment: &Environment) -> Option<PathBuf> {
    let home = || Some(Path::new(environment.get("HOME")?).join(".local/state"));
    let state = environment.get("XDG_STATE_HOME").map(PathBuf::from).or_else(home)?;
    Some(state.join("turnwire/mcp").join(format!("{label}.json")))
}

#[cfg(test)]
#[path = "tool_server_login_tests.rs"]
mod tests;
