//! Settings of the store from the file and the environment.

use super::*;

fn read(
    text: &str,
    variables: &[(&str, &str)],
    is_demo: bool,
) -> (Option<StoreOptions>, Vec<String>) {
    let mut table: Table = text.parse().unwrap();
    let mut section = |name| match table.remove(name) {
        Some(toml::Value::Table(table)) => table,
        _ => Table::new(),
    };
    let (mut in_file, mut in_environment) = (Vec::new(), Vec::new());
    let section = StoreSection::read(section("store"), section("fanout"), &mut in_file);
    let environment = variables.iter().copied().collect();
    let options = section.options(is_demo, &environment, &mut in_file, &mut in_environment);
    in_file.extend(in_environment);
    (options, in_file)
}

#[test]
fn runs_are_kept_in_a_file_unless_told_otherwise() {
    let url = |text, variables: &[_], is_demo| {
        let (options, mistakes) = read(text, variables, is_demo);
        assert_eq!(mistakes, [] as [&str; 0]);
        options.map(|options| options.url)
    };
    let file = "[store]\nurl = \"postgres://file/db\"";
    let named = "[store]\nurl_env = \"DATABASE_URL\"";
    assert_eq!(url("", &[], false).as_deref(), Some("sqlite://turnwire.db"));
    assert_eq!(url("", &[], true), None, "a demo leaves no file behind");
    assert_eq!(url(file, &[], true).as_deref(), Some("postgres://file/db"));
    let named = url(named, &[("DATABASE_URL", "postgres://named/db")], false);
    assert_eq!(named.as_deref(), Some("postgres://named/db"));
    let variable = [("TURNWIRE_STORE_URL", "sqlite://env.db")];
    assert_eq!(url(file, &variable, false).as_deref(), Some("sqlite://env.db"));
    assert_eq!(url(file, &[("TURNWIRE_STORE_URL", "memory:")], false), None);
}

#[test]
fn everything_can_be_said() {
    let text = r#"
        [store]
        url = "postgres://db/turnwire"
        lease_ms = 500
        retention_days = 30
        conversation_retention_days = 60
        compact_after_seconds = 90
        connections = 4
        tenant_role = "tenants"
        [fanout]
        url = "redis://cache:6379/"
    "#;
    let (options, mistakes) = read(text, &[], false);
    assert_eq!(mistakes, [] as [&str; 0]);
    let expected = StoreOptions {
        fanout: Some("redis://cache:6379/".to_owned()),
        lease: Duration::from_millis(500),
        retention: Some(DAY * 30),
        conversation_retention: Some(DAY * 60),
        compact_after: Some(Duration::from_secs(90)),
        connections: 4,
        tenant_role: Some("tenants".to_owned()),
        ..StoreOptions::at("postgres://db/turnwire")
    };
    assert_eq!(options, Some(expected));
    let (_, mistakes) = read("[store]\ntenant_role = \"tenants\"", &[], false);
    assert_eq!(mistakes, ["store.tenant_role: only PostgreSQL has roles"]);
    let (options, _) = read("[store]\nretention_days = 0", &[], false);
    assert_eq!(options.unwrap().retention, None, "0 keeps them for ever");
    let (options, _) = read("[store]\nconversation_retention_days = 0", &[], false);
    assert_eq!(options.unwrap().conversation_retention, None, "0 keeps them for ever");
    let (options, _) = read("[store]\ncompact_after_seconds = 0", &[], false);
    assert_eq!(options.unwrap().compact_after, None, "0 leaves them as they are");
    let (_, mistakes) = read("[store]\ncompact_after_seconds = 59", &[], false);
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
}

#[test]
fn mistakes_are_told_without_the_password() {
    let text = r#"
        [store]
        url = "mysql://user:secret@host/db"
        lease_ms = 5
        connections = 1
        [fanout]
        url = "http://secret"
    "#;
    let variables = [("TURNWIRE_STORE_URL", "secret"), ("TURNWIRE_FANOUT_URL", "secret")];
    let (_, mistakes) = read(text, &variables, false);
    assert_eq!(mistakes.len(), 6, "{mistakes:#?}");
    assert!(mistakes.iter().all(|mistake| !mistake.contains("secret")), "{mistakes:#?}");
    let (_, mistakes) = read("[store]\nurl_env = \"NOT_THERE\"", &[], false);
    assert!(mistakes[0].starts_with("store.url_env:"), "{mistakes:?}");
}
