//! Addresses, and what goes wrong with them.

use super::*;
use crate::{environment::Environment, exit::Exit};

fn base(text: &str) -> Result<String, String> {
    let address = ServerAddress::parse(text)?;
    Ok(ServerClient::new(&address, None).unwrap().base().to_owned())
}

fn client(url: &str, key: Option<&str>) -> Result<ServerClient, Problem> {
    ServerClient::new(&ServerAddress::parse(url).unwrap(), key)
}

#[test]
fn an_address_is_taken_as_people_write_it() {
    assert_eq!(base("http://127.0.0.1:7878").unwrap(), "http://127.0.0.1:7878");
    assert_eq!(base("http://127.0.0.1:7878/v1/").unwrap(), "http://127.0.0.1:7878");
    assert_eq!(base(" https://example.com/turnwire/ ").unwrap(), "https://example.com/turnwire");
    assert_eq!(base("https://example.com/?a=b#c").unwrap(), "https://example.com");
    for wrong in ["127.0.0.1:7878", "ftp://example.com", "file:///etc", "", "https://u:p@a.b"] {
        assert!(base(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn ids_cannot_leave_their_place_in_the_path() {
    let client = client("http://h/t", None).unwrap();
    let query = [("q", "a b&c".to_owned())];
    let request = client.request(Method::GET, &["v1", "runs", "../../x?y"], &query);
    let request = request.build().unwrap();
    assert_eq!(request.url().as_str(), "http://h/t/v1/runs/..%2F..%2Fx%3Fy?q=a+b%26c");
}

#[test]
fn a_key_is_sensitive_and_told_of_where_others_can_read_it() {
    let client = |url: &str| self::client(url, Some("secret")).unwrap();
    assert!(client("http://example.com").sends_key_in_the_clear());
    assert!(!client("https://example.com").sends_key_in_the_clear());
    assert!(!client("http://[::1]:7878").sends_key_in_the_clear());
    assert!(!format!("{:?}", client("http://localhost")).contains("secret"));
    let broken = self::client("http://h", Some("a\nb"));
    assert_eq!(broken.unwrap_err().exit, Exit::Usage);
}

#[test]
fn the_flag_wins_over_the_environment() {
    let environment: Environment = [("TURNWIRE_SERVER", "http://other:1")].into_iter().collect();
    let flag = ServerAddress::parse("http://flag:1").unwrap();
    let named = named_server(Some(&flag), &environment).unwrap();
    assert_eq!(named.unwrap().origin(), "http://flag:1");
    let named = named_server(None, &environment).unwrap();
    assert_eq!(named.unwrap().origin(), "http://other:1");
    assert_eq!(named_server(None, &Environment::default()).unwrap(), None);
    let wrong: Environment = [("TURNWIRE_SERVER", "nonsense")].into_iter().collect();
    assert!(named_server(None, &wrong).unwrap_err().message.starts_with("TURNWIRE_SERVER: "));
}

#[test]
fn problems_are_told_in_plain_words() {
    let refused = |status, body: &str| ServerError::refused("http://h".to_owned(), status, body);
    let body = r#"{"error":{"message":"Run with id 'x' not found.","code":"not_found"}}"#;
    let unknown = Problem::from(refused(404, body));
    assert_eq!(
        (unknown.message.as_str(), unknown.exit),
        ("Run with id 'x' not found.", Exit::Failed)
    );
    let body = r#"{"error":{"message":"…","code":"invalid_api_key"}}"#;
    let key = Problem::from(refused(401, body));
    assert_eq!(key.message, "the server at http://h refused the API key");
    assert_eq!(key.exit, Exit::Usage);
    let body = r#"{"error":{"message":"…","code":"missing_api_key"}}"#;
    assert!(Problem::from(refused(401, body)).message.ends_with("needs an API key"));
    // A proxy without a server behind it is a server that cannot be reached.
    let gone = refused(502, "<html>Bad gateway</html>");
    assert!(gone.is_temporary());
    assert_eq!(Problem::from(gone).exit, Exit::Unreachable);
    let stranger = refused(404, "<html>Not found</html>");
    assert!(!stranger.is_temporary());
    assert!(Problem::from(stranger).message.ends_with("is not a Turnwire server"));
}
