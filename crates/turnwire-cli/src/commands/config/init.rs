//! `turnwire config init`: a small settings file that works in this environment.
//!
//! It names the variables that are set, and never copies a secret. What is not set up is shown as
//! a comment, so that the file says what else there is.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write},
    path::Path,
};

use crate::{
    args::ConfigInitArguments,
    environment::Environment,
    exit::{Problem, Result},
    settings::{DEFAULT_FILE, is_http_url},
};

const BEGIN: &str = "\
# Settings of Turnwire. The environment overrides this file, and flags override the environment.
# What is not here has its default: `turnwire config print` shows all settings with their sources.
# `turnwire config check` reports mistakes. All settings: docs/settings.md

[server]
# Any address but loopback requires an API key.
listen = \"127.0.0.1:7878\"
";

const STORE: &str = "\
[store]
# A file in the working directory. For several servers: \"postgres://user@host/database\"
url = \"sqlite://turnwire.db\"
";

const LAST: &str = "\
# Tools of an MCP server: a program, or an address with `url`.
# [mcp_servers.everything]
# command = \"npx\"
# args = [\"-y\", \"@modelcontextprotocol/server-everything\"]
";

pub(super) fn init(arguments: &ConfigInitArguments, environment: &Environment) -> Result<String> {
    let path = arguments.output.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
    let shown = path.display();
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(text(environment).as_bytes()));
    match written {
        Ok(()) => {
            let named = arguments.output.is_some().then(|| format!(" --config {shown}"));
            let named = named.unwrap_or_default();
            Ok(format!("{shown} is written; start the server with: turnwire serve{named}"))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(Problem::usage(format!("{shown} exists, and is not changed"))
                .hint("name another file with --output FILE"))
        }
        Err(error) => Err(Problem::failure(format!("{shown} cannot be written: {error}"))),
    }
}

fn text(environment: &Environment) -> String {
    let sections = [Some(models(environment)), web_search(environment)];
    let store = (!environment.is_set("TURNWIRE_STORE_URL")).then(|| STORE.to_owned());
    let sections = sections.into_iter().flatten().chain(store).chain([LAST.to_owned()]);
    [BEGIN.to_owned()].into_iter().chain(sections).collect::<Vec<_>>().join("\n")
}

/// The models whose keys or address are in the environment, or else one on this machine.
fn models(environment: &Environment) -> String {
    let has_openai = environment.is_set("OPENAI_API_KEY");
    let mut models = Vec::new();
    // A URL with a user name may have a password, and stays in the environment.
    let server = environment.get("OPENAI_BASE_URL").filter(|url| is_http_url(url));
    if let Some(url) = server {
        let key = if has_openai { "api_key_env = \"OPENAI_API_KEY\"\n" } else { "" };
        let address = if url.contains(['@', '?', '"', '\\']) {
            "# Its address is in OPENAI_BASE_URL.\n".to_owned()
        } else {
            format!(
                "# OPENAI_BASE_URL overrides this address while it is set.\nbase_url = \"{url}\"\n"
            )
        };
        models.push(format!(
            "# The model for requests that name no other one. Without `model`, the server gets the\n\
             # name in the request.\n[models.default]\nkind = \"chat_completions\"\n{address}{key}"
        ));
    } else if has_openai {
        models.push(
            "# The model for requests that name no other one. Without `model`, OpenAI gets the name \
             in\n# the request.\n[models.default]\nkind = \"openai_responses\"\n# The variable with \
             the key:\napi_key_env = \"OPENAI_API_KEY\"\n"
                .to_owned(),
        );
    }
    if environment.is_set("ANTHROPIC_API_KEY") {
        let name = if models.is_empty() { "default" } else { "claude" };
        models.push(format!(
            "# Anthropic gets the model name in the request, or the one in `model`.\n\
             [models.{name}]\nkind = \"anthropic_messages\"\n# The variable with the key:\n\
             api_key_env = \"ANTHROPIC_API_KEY\"\n"
        ));
    }
    if models.is_empty() {
        models.push(
            "# A server with the Chat Completions API on this machine, such as Ollama. For OpenAI or\n\
             # Anthropic: kind = \"openai_responses\" or \"anthropic_messages\", and api_key_env with \
             the\n# variable that has the key, in place of base_url.\n[models.default]\nkind = \
             \"chat_completions\"\nbase_url = \"http://localhost:11434/v1\"\nmodel = \"qwen3:8b\"\n"
                .to_owned(),
        );
    }
    models.join("\n")
}

/// The search engine whose key is in the environment.
fn web_search(environment: &Environment) -> Option<String> {
    let engines = [("brave", "BRAVE_API_KEY"), ("tavily", "TAVILY_API_KEY")];
    let (engine, variable) =
        engines.into_iter().find(|(_, variable)| environment.is_set(variable))?;
    Some(format!(
        "# Web search; the key is in {variable}.\n[web_search]\nprovider = \"{engine}\"\n"
    ))
}
