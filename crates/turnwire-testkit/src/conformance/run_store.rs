//! The promises of [`RunStore`].

use std::sync::Arc;

use turnwire_contract::{
    ConversationId, Item, NewRun, RunId, RunOutcome, RunRequest, RunStatus, RunStore, StoreError,
    TenantId, Timestamp,
};

/// Runs the whole suite on `store`, which may have other runs in it.
pub async fn check(store: &dyn RunStore) {
    a_conversation_has_one_active_run(store).await;
    finishing_twice_changes_nothing(store).await;
    tenants_do_not_see_each_other(store).await;
    the_newest_runs_come_first(store).await;
    a_restored_conversation_is_there(store).await;
}

fn run(id: &str, tenant: &str, conversation: Option<&str>) -> NewRun {
    let mut request = RunRequest::new("any", vec![Item::user("hi")]);
    request.tenant = TenantId::from(tenant);
    request.conversation_id = conversation.map(ConversationId::from);
    let created_at = Timestamp::from_micros(1);
    NewRun { run_id: RunId::from(id), created_at, request: Arc::new(request) }
}

async fn a_conversation_has_one_active_run(store: &dyn RunStore) {
    store.create(run("run_c1", "t", Some("conv_c"))).await.expect("it is free");
    let second = store.create(run("run_c2", "t", Some("conv_c"))).await;
    assert!(matches!(second, Err(StoreError::Busy { .. })), "I13: {second:?}");
    let (tenant, conversation) = (TenantId::from("t"), ConversationId::from("conv_c"));
    let restored = store.restore(&tenant, &conversation, Vec::new()).await;
    assert!(matches!(restored, Err(StoreError::Busy { .. })), "replaced while in use");
    let items = vec![Item::user("hi"), Item::assistant("hello")];
    store
        .finish(&RunId::from("run_c1"), RunOutcome::Completed, items.clone())
        .await
        .expect("it is active");
    store.create(run("run_c3", "t", Some("conv_c"))).await.expect("it is free again");
    let history = store.history(&TenantId::from("t"), &ConversationId::from("conv_c")).await;
    assert_eq!(history.expect("it is there"), items);
}

async fn finishing_twice_changes_nothing(store: &dyn RunStore) {
    store.create(run("run_f", "t", Some("conv_f"))).await.expect("it is free");
    let id = RunId::from("run_f");
    let first = store.finish(&id, RunOutcome::Completed, vec![Item::user("once")]).await;
    first.expect("it is active");
    let second = store.finish(&id, RunOutcome::Cancelled, vec![Item::user("twice")]).await;
    second.expect("it is ignored");
    let record = store.find(&TenantId::from("t"), &id).await.expect("it is there");
    assert_eq!(record.status, RunStatus::Finished { outcome: RunOutcome::Completed });
    let history = store.history(&TenantId::from("t"), &ConversationId::from("conv_f")).await;
    assert_eq!(history.expect("it is there"), [Item::user("once")]);
    let unknown = store.finish(&RunId::from("run_none"), RunOutcome::Completed, Vec::new()).await;
    assert!(matches!(unknown, Err(StoreError::NotFound(_))), "{unknown:?}");
}

async fn tenants_do_not_see_each_other(store: &dyn RunStore) {
    store.create(run("run_t", "one", Some("conv_t"))).await.expect("it is free");
    let theirs = store.find(&TenantId::from("other"), &RunId::from("run_t")).await;
    assert!(matches!(theirs, Err(StoreError::NotFound(_))), "{theirs:?}");
    store
        .create(run("run_t2", "other", Some("conv_t")))
        .await
        .expect("another tenant's is another");
    let (id, items) = (RunId::from("run_t"), vec![Item::user("x")]);
    store.finish(&id, RunOutcome::Completed, items).await.expect("it is active");
    let history = store.history(&TenantId::from("other"), &ConversationId::from("conv_t")).await;
    assert_eq!(history.expect("it is empty"), []);
    let listed = store.list(&TenantId::from("one"), 10).await.expect("it can be listed");
    assert_eq!(listed.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["run_t"]);
}

async fn the_newest_runs_come_first(store: &dyn RunStore) {
    for id in ["run_l1", "run_l2", "run_l3"] {
        store.create(run(id, "lister", None)).await.expect("there is room");
    }
    let listed = store.list(&TenantId::from("lister"), 2).await.expect("it can be listed");
    assert_eq!(
        listed.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(),
        ["run_l3", "run_l2"]
    );
    assert_eq!(listed.first().map(|run| &run.status), Some(&RunStatus::Active));
}

async fn a_restored_conversation_is_there(store: &dyn RunStore) {
    let (tenant, id) = (TenantId::from("t"), ConversationId::from("conv_r"));
    let items = vec![Item::user("before"), Item::assistant("yes")];
    store.restore(&tenant, &id, items.clone()).await.expect("it is new");
    assert_eq!(store.history(&tenant, &id).await.expect("it is there"), items);
}
