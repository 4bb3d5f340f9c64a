//! Whoever depends on `turnwire` alone can name every type in its signatures.
//!
//! There is no description of a public interface on stable Rust, so the sources are read: the
//! public signatures of this crate, and where each name in them comes from. What comes from
//! elsewhere must be re-exported by name at the root, or, for other people's crates, as the crate.
//! That the names at the root are really there is proved by the imports below.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use turnwire::{
    Finish, Model, ModelError, ModelPart, ModelStream, Prompt, Tool, ToolContext, ToolError,
    ToolOutput, ToolRequest, ToolSpec, async_trait, contract, engine, futures, serde_json,
};

/// A model and a tool of one's own, an engine and a store, with nothing but this crate.
#[tokio::test]
async fn a_program_needs_nothing_else() {
    struct Parrot;
    #[async_trait]
    impl Model for Parrot {
        async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
            let last = prompt.items.last().map(|item| format!("{item:?}")).unwrap_or_default();
            let parts = vec![Ok(ModelPart::Text(last)), Ok(ModelPart::Finished(Finish::Answered))];
            Ok(Box::pin(futures::stream::iter(parts)))
        }
    }
    struct Nothing(ToolSpec);
    #[async_trait]
    impl Tool for Nothing {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        async fn call(&self, _: ToolRequest, _: ToolContext) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::text(serde_json::Value::Null.to_string()))
        }
    }
    let nothing = Nothing(ToolSpec::new("nothing", "Does nothing."));
    let agent = turnwire::Agent::builder().model(Parrot).tool(nothing).build().expect("an agent");
    let runs: &engine::Runs = agent.runs();
    let store: &std::sync::Arc<dyn contract::RunStore> = runs.store();
    assert!(store.list(&contract::TenantId::default(), 1).await.expect("it answers").is_empty());
    let reply = agent.stream_chat("Hello!").await.expect("a reply");
    assert!(reply.text.contains("Hello!"), "{}", reply.text);
}

/// S4-14 and its kind: the interface is what programs are written against, so it has no type that
/// they cannot write down.
#[test]
fn every_name_in_a_signature_is_re_exported() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let root = fs::read_to_string(sources.join("lib.rs")).expect("lib.rs");
    let at_root = exported(&root);
    let mut n_names = 0;
    for file in fs::read_dir(&sources).expect("the sources") {
        let path = file.expect("a file").path();
        let text = without_comments(&fs::read_to_string(&path).expect("a source"));
        let foreign = imported(&text);
        for name in names_in_signatures(&text) {
            let Some(origin) = foreign.get(&name) else { continue };
            n_names += 1;
            let is_there = at_root.contains(&name) || at_root.contains(origin);
            assert!(is_there, "{}: `{name}` of `{origin}` is not re-exported", path.display());
        }
    }
    assert!(n_names > 30, "only {n_names} names were found: does this test still read?");
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The names behind every `pub use`, with what they are called here.
fn exported(text: &str) -> BTreeSet<String> {
    let uses = text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let words = uses.flat_map(|list| list.split([',', '{', '}'])).map(str::trim);
    let last = |word: &str| word.rsplit([' ', ':']).next().map(str::to_owned);
    words.filter_map(last).filter(|word| !word.is_empty()).collect()
}

/// Every name that a file imports from another crate, with that crate.
fn imported(text: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for list in text.split("\nuse ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let origin = list.split([':', ' ', '{']).next().unwrap_or_default();
        if ["std", "crate", "super", "self"].contains(&origin) {
            continue;
        }
        let words = list.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let types = words.filter(|word| word.starts_with(char::is_uppercase));
        names.extend(types.map(|name| (name.to_owned(), origin.to_owned())));
    }
    names
}

/// Every word that begins with a capital in what is public: functions up to their body, and types
/// and traits with all that is in them.
fn names_in_signatures(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let items = text.match_indices("pub ").filter(|(at, _)| {
        let before = text.get(..*at).unwrap_or_default();
        before.is_empty() || before.ends_with(['\n', ' ', '('])
    });
    for (at, _) in items {
        let rest = text.get(at + "pub ".len()..).unwrap_or_default();
        if rest.starts_with("use ") || rest.starts_with("mod ") {
            continue;
        }
        // What is in an enum or a trait is as public as it is; a struct has `pub` fields.
        let has_body = rest.starts_with("enum ") || rest.starts_with("trait ");
        let is_field = rest.split_once(':').is_some_and(|(name, _)| !name.contains([' ', '(']));
        let end = match (has_body, is_field) {
            (true, _) => rest.find("\n}"),
            (false, true) => rest.find('\n'),
            (false, false) => rest.find(['{', ';']),
        };
        let signature = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let words = signature.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        names.extend(words.filter(|word| word.starts_with(char::is_uppercase)).map(str::to_owned));
    }
    names
}
