//! Contract of [`Pins`].

use turnwire_contract::{PinnedTool, Pins, TenantId};

fn pinned(tool: &str, definition: &str) -> PinnedTool {
    PinnedTool { tool: tool.to_owned(), definition: definition.to_owned() }
}

/// Runs the whole suite on `pins`, which has no pins of the server `server` yet.
pub async fn check(pins: &dyn Pins) {
    let (ours, theirs) = (TenantId::from("ours"), TenantId::from("theirs"));
    let meet = async |tenant: &TenantId, server: &str, tools: &[PinnedTool]| {
        let mut met = pins.meet(tenant, server, tools).await.expect("the store answers");
        met.sort_by(|one, other| one.tool.cmp(&other.tool));
        met
    };
    assert_eq!(meet(&ours, "server", &[]).await, []);
    let first = [pinned("a", "1"), pinned("b", "1")];
    assert_eq!(meet(&ours, "server", &first).await, first, "what is met first is trusted");
    let later = [pinned("a", "2"), pinned("c", "1")];
    let known = [pinned("a", "1"), pinned("c", "1")];
    assert_eq!(meet(&ours, "server", &later).await, known, "and stays");
    assert_eq!(meet(&theirs, "server", &later).await, later, "for its tenant");
    assert_eq!(meet(&ours, "other", &later).await, later, "and its server");
    pins.trust(&ours, "server", pinned("a", "2")).await.expect("the store answers");
    assert_eq!(meet(&ours, "server", &[pinned("a", "1")]).await, [pinned("a", "2")]);
    pins.trust(&ours, "server", pinned("new", "7")).await.expect("the store answers");
    assert_eq!(meet(&ours, "server", &[pinned("new", "8")]).await, [pinned("new", "7")]);

    let meetings = (0..8).map(|n| {
        let ours = ours.clone();
        async move {
            let definition = n.to_string();
            pins.meet(&ours, "race", &[pinned("t", &definition)]).await.expect("the store answers")
        }
    });
    let told = futures::future::join_all(meetings).await;
    let is_same = |one: &Vec<PinnedTool>| Some(one) == told.first() && one.len() == 1;
    assert!(told.iter().all(is_same), "one is kept: {told:?}");
}
