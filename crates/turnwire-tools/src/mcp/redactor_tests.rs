use serde_json::json;

use super::*;

fn supplied(headers: &[(&str, &str)]) -> Redactor {
    let mut secrets = ServerSecrets::default();
    for (name, value) in headers {
        secrets.add(name, SecretText::new(*value));
    }
    Redactor::new(&McpServerOptions::http("https://example.com"), Some(&secrets))
}

/// A12: a server that repeats its headers does not bring them into a result.
#[test]
fn secrets_are_replaced_in_every_text_of_a_message() {
    let redactor = supplied(&[("authorization", "Bearer canary-1234"), ("x-key", "canary-5678")]);
    let answer = |result| json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    let sent = answer(json!({
        "content": [{ "type": "text", "text": "you sent Bearer canary-1234, canary-5678" }],
        "structuredContent": { "canary-5678": ["canary-1234", 7, null, true] },
        "isError": true,
    }));
    let message = serde_json::from_value(sent).expect("a message");
    let cleaned = redactor.message(message).expect("a message");
    let cleaned = serde_json::to_string(&cleaned).expect("JSON");
    assert!(!cleaned.contains("canary"), "{cleaned}");
    assert!(cleaned.contains("you sent Bearer [secret], [secret]"), "{cleaned}");
    let error = json!({ "jsonrpc": "2.0", "id": 1, "error": {
        "code": -32000, "message": "bad header canary-5678", "data": { "got": "canary-1234" },
    } });
    let message = serde_json::from_value(error).expect("a message");
    let cleaned = serde_json::to_string(&redactor.message(message)).expect("JSON");
    assert!(cleaned.contains("bad header [secret]") && !cleaned.contains("canary"), "{cleaned}");
}

/// A12: values with spaces, several cookies, and secrets that begin like others are replaced whole.
#[test]
fn no_part_of_a_secret_is_left() {
    let redactor = supplied(&[
        ("cookie", "session=canary-one; csrf=canary-two"),
        ("x-phrase", "canary horse battery"),
        ("account", "canary_12345"),
        ("authorization", "Bearer canary_12345.canary"),
    ]);
    let text = "session=canary-one; csrf=canary-two, canary-two, canary horse battery, \
                canary_12345.canary";
    assert_eq!(redactor.text(text), "[secret], [secret], [secret], [secret]");
}

#[test]
fn other_texts_stay_as_they_are() {
    let redactor = supplied(&[("x-mode", "fast"), ("authorization", "Bearer")]);
    assert_eq!(redactor.text("fast Bearer"), "fast Bearer");
    let message = json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [] } });
    let read = |value: &serde_json::Value| serde_json::from_value(value.clone()).expect("message");
    let same: RxJsonRpcMessage<RoleClient> = read(&message);
    let before = serde_json::to_value(&same).expect("JSON");
    let redactor = supplied(&[("x-key", "canary-5678")]);
    let after = redactor.message(same).expect("a message");
    assert_eq!(serde_json::to_value(&after).expect("JSON"), before);
}

#[test]
fn secrets_of_the_settings_are_known_by_their_names() {
    let url = "https://user:canary-password@example.com/?a=b&key=canary-query";
    let mut options = McpServerOptions::http(url);
    if let McpTransport::Http { headers, bearer_token, .. } = &mut options.transport {
        *bearer_token = Some("canary-token".into());
        headers.insert("X-Api-Key".to_owned(), "canary-header".to_owned());
        headers.insert("X-Team".to_owned(), "platform".to_owned());
    }
    let redactor = Redactor::new(&options, None);
    let text = redactor.text("canary-token canary-header platform");
    assert_eq!(text, "[secret] [secret] platform");
    let text = redactor.text(url);
    assert_eq!(text, "https://user:[secret]@example.com/?a=b&key=[secret]");
    let mut options = McpServerOptions::stdio("server", ["--flag"]);
    if let McpTransport::Stdio { env, .. } = &mut options.transport {
        env.insert("DB_PASSWORD".to_owned(), "canary-env".to_owned());
        env.insert("DATA_DIR".to_owned(), "/var/data".to_owned());
    }
    let redactor = Redactor::new(&options, None);
    assert_eq!(redactor.text("canary-env in /var/data"), "[secret] in /var/data");
    assert!(!format!("{redactor:?}").contains("canary"));
}

/// A12: the secret of an OAuth client and the tokens that it gets are replaced, and so is a token
/// that was replaced by another one.
#[test]
fn tokens_and_client_secrets_are_replaced() {
    let oauth = crate::mcp::OAuthOptions {
        client_secret: Some(crate::Secret::new("canary-client")),
        ..Default::default()
    };
    let redactor =
        Redactor::new(&McpServerOptions::http("https://example.com").with_oauth(oauth), None);
    assert_eq!(redactor.text("canary-client"), "[secret]");
    redactor.learn("canary-token-1");
    redactor.learn("canary-token-12");
    redactor.learn("short");
    assert_eq!(redactor.text("canary-token-12 canary-token-1 short"), "[secret] [secret] short");
    for n in 0..100 {
        redactor.learn(&format!("another-token-{n}"));
    }
    assert_eq!(redactor.text("canary-client another-token-99"), "[secret] [secret]");
    assert_eq!(redactor.all().len(), 1 + MAX_LEARNED);
}

/// A secret is found wherever it is in a long message, also where blocks meet, and if JSON writes
/// it in another way.
#[test]
fn secrets_are_found_in_long_messages() {
    let secret = "canary-\"1234\"\\";
    let redactor = supplied(&[("x-key", secret)]);
    for n_before in (BLOCK_BYTES - 200..BLOCK_BYTES + 50).chain([3 * BLOCK_BYTES]) {
        let text = format!("{}{secret}.", "x".repeat(n_before));
        let message = json!({ "jsonrpc": "2.0", "id": 1, "result": {
            "content": [{ "type": "text", "text": text }],
        } });
        let message = serde_json::from_value(message).expect("a message");
        let cleaned = redactor.message(message).expect("a message");
        let cleaned = serde_json::to_string(&cleaned).expect("JSON");
        assert!(!cleaned.contains("canary") && cleaned.contains("[secret]."), "{n_before}");
    }
}
