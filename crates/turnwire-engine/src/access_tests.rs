use turnwire_contract::WhyLeftOut;

use super::*;

fn scopes(names: &[&str]) -> BTreeSet<Scope> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn rules() -> AccessRules {
    let only = |name: &str| Access { tenants: None, scopes: Some(scopes(&[name])) };
    let acme = Access { tenants: Some([TenantId::new("acme")].into()), scopes: None };
    AccessRules {
        models: [("large".to_owned(), only("use:large"))].into(),
        any_model: only("use:other"),
        tools: [("search".to_owned(), acme)].into(),
        servers: [(
            "crm".to_owned(),
            ServerAccess {
                server: only("use:crm"),
                tools: [("delete".to_owned(), only("use:crm-admin"))].into(),
            },
        )]
        .into(),
    }
}

#[test]
fn one_scope_of_several_is_enough_and_all_uses_open_everything() {
    let rules = rules();
    let tenant = TenantId::new("t");
    let check = |held: &[&str]| {
        let held = scopes(held);
        let who = Principal { tenant: &tenant, scopes: &held };
        [
            rules.admits_model(who, "large", true),
            rules.admits_model(who, "unknown", false),
            rules.admits_server(who, "crm"),
            rules.admits_server_tool(who, "crm", "delete"),
            rules.admits_server_tool(who, "crm", "find"),
        ]
    };
    assert_eq!(check(&[]), [false, false, false, false, false]);
    assert_eq!(check(&["use:large"]), [true, false, false, false, false]);
    assert_eq!(check(&["use:crm"]), [false, false, true, false, true]);
    // A tool of a server that somebody may not use is not theirs either.
    assert_eq!(check(&["use:crm-admin"]), [false, false, false, false, false]);
    assert_eq!(check(&["use:crm", "use:crm-admin"]), [false, false, true, true, true]);
    assert_eq!(check(&["use:*"]), [true, true, true, true, true]);
    // The scope of an operator of keys is none for models and tools.
    assert_eq!(check(&["operator", "runs:write"]), [false, false, false, false, false]);
}

#[test]
fn a_tool_may_belong_to_tenants() {
    let (rules, none) = (rules(), BTreeSet::new());
    let admits = |tenant: &str, tool: &str| {
        rules.admits_tool(Principal { tenant: &TenantId::new(tenant), scopes: &none }, tool)
    };
    assert!(admits("acme", "search"));
    assert!(!admits("other", "search"));
    assert!(admits("other", "weather"));
}

#[test]
fn a_run_records_the_scopes_that_rules_name() {
    let rules = rules();
    let granted = |held: &[&str]| rules.granted(&scopes(held));
    assert_eq!(granted(&["runs:write", "use:crm", "use:elsewhere"]), scopes(&["use:crm"]));
    let all = scopes(&["use:large", "use:other", "use:crm", "use:crm-admin"]);
    assert_eq!(granted(&["use:*"]), all);
    assert!(AccessRules::default().granted(&scopes(&["use:*"])).is_empty());
}

/// A19: a tool that somebody may not use is not named as one that is left out, either.
#[test]
fn a_tool_that_is_left_out_is_named_to_those_who_may_use_it() {
    let (rules, tenant) = (rules(), TenantId::new("t"));
    let named = |held: &[&str]| {
        let mut left_out = LeftOut::default();
        for name in ["delete", "find"] {
            left_out.add(name, &WhyLeftOut::TooLarge);
        }
        rules.hide_left_out(
            Principal { tenant: &tenant, scopes: &scopes(held) },
            "crm",
            &mut left_out,
        );
        left_out.tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert!(named(&[]).is_empty());
    assert_eq!(named(&["use:crm"]), ["find"]);
    assert_eq!(named(&["use:*"]), ["delete", "find"]);
}
