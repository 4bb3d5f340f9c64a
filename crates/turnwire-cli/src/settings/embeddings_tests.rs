//! Valid and invalid settings of the embeddings model.

use super::*;
use crate::settings::testing::{check_mistakes, demo_settings};

const LINES: &str = "[embeddings]\nbase_url = \"http://e/v1\"\nmodel = \"mini\"\n";

#[test]
fn a_server_is_asked_for_vectors() {
    let expected = EmbeddingsOptions::new("http://e/v1", "mini");
    assert_eq!(demo_settings(LINES, &[]).unwrap().embeddings, Some(expected.clone()));
    assert_eq!(demo_settings("", &[]).unwrap().embeddings, None);
    let text = format!("{LINES}api_key_env = \"KEY\"\n");
    let with_key = EmbeddingsOptions { api_key: Some("secret".into()), ..expected };
    assert_eq!(demo_settings(&text, &[("KEY", "secret")]).unwrap().embeddings, Some(with_key));
}

#[test]
fn what_is_missing_or_wrong_is_told() {
    check_mistakes(
        "[embeddings]\n",
        &[],
        &[
            "embeddings.base_url: missing; it should look like http://localhost:11434/v1",
            "embeddings.model: missing; name a model of that server",
        ],
    );
    check_mistakes(
        "[embeddings]\nbase_url = \"e\"\nmodel = \"\"\n",
        &[],
        &[
            "embeddings.base_url: `e` is not an address; it should look like \
             http://localhost:11434/v1",
            "embeddings.model: missing; name a model of that server",
        ],
    );
    check_mistakes(
        &format!("{LINES}api_key_env = \"KEY\"\n"),
        &[],
        &["embeddings.api_key_env: the environment variable `KEY` is not set"],
    );
}
