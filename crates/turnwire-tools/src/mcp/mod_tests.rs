use super::*;

/// A2: a server of one tenant does not exist for others.
#[tokio::test]
async fn a_server_of_one_tenant_does_not_exist_for_others() {
    let mut options = McpServerOptions::http("http://127.0.0.1:9/mcp");
    options.tenants = Some([TenantId::from("acme")].into());
    let servers = McpServers::new([("docs".to_owned(), options)].into());
    let (acme, other) = (TenantId::from("acme"), TenantId::from("other"));
    assert_eq!(servers.labels(&acme), ["docs"]);
    assert_eq!(servers.statuses(&acme).len(), 1);
    assert!(servers.server(&acme, "docs".into()).is_ok());
    assert_eq!(servers.labels(&other), [""; 0]);
    assert_eq!(servers.statuses(&other).len(), 0);
    assert!(servers.known_tools(&other, "docs".into()).is_none());
    assert!(servers.known_tool(&other, "docs".into(), "search").is_none());
    let hidden = servers.tools(&other, "docs".into()).await.err().map(|error| error.to_string());
    let unknown = servers.tools(&other, "none".into()).await.err().map(|error| error.to_string());
    assert_eq!(hidden, unknown.map(|unknown| unknown.replace("none", "docs")));
}

/// A reload does not touch a server whose options are the same, and nobody gets one that is gone.
#[tokio::test]
async fn a_reload_keeps_what_did_not_change() {
    let at = |port: u16| McpServerOptions::http(format!("http://127.0.0.1:{port}/mcp"));
    let all = |servers: &[(&str, u16)]| {
        let servers = servers.iter().map(|(label, port)| ((*label).to_owned(), at(*port)));
        servers.collect::<BTreeMap<_, _>>()
    };
    let tenant = TenantId::default();
    let servers = McpServers::new(all(&[("same", 1), ("changed", 2), ("gone", 3)]));
    let of = |label: &str| servers.server(&tenant, label.into());
    let (same, changed, gone) = (of("same").unwrap(), of("changed").unwrap(), of("gone").unwrap());
    servers.reload(all(&[("same", 1), ("changed", 4), ("new", 5)]), None);
    assert_eq!(servers.labels(&tenant), ["changed", "new", "same"]);
    assert!(Arc::ptr_eq(&same, &of("same").unwrap()));
    assert!(!Arc::ptr_eq(&changed, &of("changed").unwrap()));
    assert!(of("gone").is_err());
    for removed in [changed, gone] {
        let error = removed.connection().await.err().unwrap();
        assert!(error.to_string().contains("removed from the settings"), "{error}");
    }
}

/// The rules for servers of requests stay unless there are new ones.
#[test]
fn a_reload_keeps_the_rules_unless_there_are_new_ones() {
    let egress = || Egress::new(&crate::EgressOptions::default()).unwrap();
    let rule = |url: &str| vec![UrlRule::at(url).unwrap()];
    let (tenant, one, two) = (TenantId::default(), "https://one.example", "https://two.example");
    let servers = McpServers::new(BTreeMap::new()).allowing_urls(rule(one), egress());
    let allowed = || (servers.allows_url(&tenant, one), servers.allows_url(&tenant, two));
    servers.reload(BTreeMap::new(), None);
    assert_eq!(allowed(), (true, false));
    servers.reload(BTreeMap::new(), Some((rule(two), egress())));
    assert_eq!(allowed(), (false, true));
    servers.reload(BTreeMap::new(), Some((Vec::new(), egress())));
    assert_eq!(allowed(), (false, false));
}
