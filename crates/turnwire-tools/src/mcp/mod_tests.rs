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
