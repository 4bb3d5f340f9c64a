use super::super::report::Health;
use super::*;

#[test]
fn a_model_that_is_not_listed_is_a_warning_with_a_guess() {
    let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let about =
        |wanted: &str, names: &[&str]| listed("m".into(), "http://s", wanted, &known(names));
    assert_eq!(about("a", &["a", "b"]), Finding::ok("m", "http://s has `a`"));
    let slip = about("qwen3:8", &["qwen3:8b", "llama4"]);
    assert_eq!(
        (slip.status, slip.hints[0].as_str()),
        (Health::Warning, "did you mean `qwen3:8b`?")
    );
    let many = about("zzz", &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(many.hints, ["the first of 6: a, b, c, d, e"]);
    assert_eq!(about("zzz", &[]).hints, Vec::<String>::new());
}

#[test]
fn proxies_are_told_with_what_they_do() {
    let of = |variables: &[(&str, &str)]| proxies(&variables.iter().copied().collect());
    assert_eq!(of(&[]), None);
    let found = of(&[("HTTPS_PROXY", "http://p:3128"), ("NO_PROXY", "localhost")]).unwrap();
    assert_eq!(found.status, Health::Warning);
    assert!(found.message.starts_with("HTTPS_PROXY is set, except for localhost:"), "{found:?}");
    // The URL of a proxy may contain a password.
    let found = of(&[("http_proxy", "http://me:secret@p")]).unwrap();
    assert!(!format!("{found:?}").contains("secret"));
}

#[test]
fn a_store_that_is_not_there_yet_needs_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let made = not_there_yet(&folder.path().join("turnwire.db"));
    assert_eq!(made.status, Health::Ok, "{made:?}");
    let lost = not_there_yet(&folder.path().join("no/such/turnwire.db"));
    assert_eq!(lost.status, Health::Broken, "{lost:?}");
}
