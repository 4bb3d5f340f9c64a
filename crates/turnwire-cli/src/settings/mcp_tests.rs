use super::*;

/// Returns the `[mcp]` section and its errors.
fn section(text: &str) -> (McpSection, Vec<String>) {
    let file = SettingsFile { path: PathBuf::from("turnwire.toml"), text: text.to_owned() };
    let (table, mut mistakes) = (text.parse().unwrap(), Vec::new());
    (mcp(table, &file, &mut mistakes), mistakes)
}

/// A4: requests may supply servers only at URLs that are listed.
#[test]
fn places_are_opened_one_by_one() {
    assert_eq!(section("").0.on_request, []);
    let (read, mistakes) = section(
        "[[on_request]]\nurl = \"https://a.example/x\"\n\
         [[on_request]]\nurl = \"https://b.example\"\ntenants = [\"blue\"]",
    );
    let (first, second) = ("https://a.example/x", "https://b.example");
    let second = UrlRule::at(second).unwrap().only_for(vec!["blue".into()]);
    assert_eq!(read.on_request, [UrlRule::at(first).unwrap(), second]);
    assert_eq!(mistakes, [""; 0]);
    for (text, mistake) in [
        ("[[on_request]]\n", "[0].url: missing"),
        ("[[on_request]]\nurl = \"a.example\"", "`a.example`: it must be"),
        ("[[on_request]]\nurl = \"https://u:p@a.example\"", "without user"),
        ("[[on_request]]\nurl = \"https://a.example\"\ntenant = \"x\"", "tenants"),
    ] {
        let (read, mistakes) = section(text);
        assert!(mistakes.len() == 1 && mistakes[0].contains(mistake), "{text}: {mistakes:?}");
        assert!(mistakes[0].starts_with("mcp.on_request"), "{mistakes:?}");
        assert!(read.on_request.len() <= 1, "{text}");
    }
}
