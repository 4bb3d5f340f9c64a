//! Contract of [`RunStore`].

use std::{collections::BTreeMap, sync::Arc};

use turnwire_contract::{
    Allowed, ConversationId, ConversationRecord, Created, Entry, IdempotencyKey, Item, ItemId,
    NewRun, RunId, RunOutcome, RunRequest, RunStatus, RunStore, SealedSecret, StoreError, TenantId,
    Timestamp,
};

/// Runs the whole suite on `store`, which may contain other runs.
pub async fn check(store: &dyn RunStore) {
    a_conversation_has_one_active_run(store).await;
    finishing_twice_changes_nothing(store).await;
    tenants_do_not_see_each_other(store).await;
    the_newest_runs_come_first(store).await;
    a_restored_conversation_is_there(store).await;
    a_run_continues_another(store).await;
    a_forgotten_run_is_gone(store).await;
    a_conversation_is_kept_by_hand(store).await;
    a_busy_conversation_is_left_alone(store).await;
    a_run_replaces_the_end_of_a_conversation(store).await;
    a_request_with_a_key_makes_one_run(store).await;
    what_is_allowed_goes_with_its_conversation(store).await;
    a_name_that_nobody_can_have_names_nothing(store).await;
    secrets_go_with_the_end_of_their_run(store).await;
}

/// A6: secrets are stored with their run, and nothing of them is left after its end.
async fn secrets_go_with_the_end_of_their_run(store: &dyn RunStore) {
    let tenant = TenantId::from("t");
    let secret = |server: &str| SealedSecret {
        server: server.to_owned(),
        key_id: "k1".to_owned(),
        sealed: format!("sealed for {server}"),
    };
    let both = vec![secret("mail"), secret("wiki")];
    let new =
        |id: &str, conversation| NewRun { secrets: both.clone(), ..run(id, "t", conversation) };
    let ids = ["run_sealed1", "run_sealed2", "run_sealed3"].map(RunId::from);
    for (id, conversation) in ids.iter().zip([None, Some("conv_sealed"), None]) {
        store.create(new(id.as_str(), conversation)).await.expect("it is free");
    }
    let busy = store.create(new("run_sealed4", Some("conv_sealed"))).await;
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    let [first, second, third] = &ids;
    for id in &ids {
        assert_eq!(store.secrets(&tenant, id).await.expect("secrets"), both);
        let other = store.secrets(&TenantId::from("other"), id).await;
        assert_eq!(other.expect("none"), [], "another tenant");
    }
    for id in [&RunId::from("run_sealed4"), &RunId::from("run_none")] {
        assert_eq!(store.secrets(&tenant, id).await.expect("none"), [], "not created");
    }
    store.finish(first, RunOutcome::Completed, Vec::new()).await.expect("it is active");
    store.finish(second, RunOutcome::Cancelled, entries(&["s"])).await.expect("it is active");
    for id in [first, second] {
        assert_eq!(store.secrets(&tenant, id).await.expect("none"), [], "after the end");
    }
    assert_eq!(store.secrets(&tenant, third).await.expect("secrets"), both, "still active");
}

/// An id that a database rejects is treated as not found.
async fn a_name_that_nobody_can_have_names_nothing(store: &dyn RunStore) {
    let tenant = TenantId::from("t");
    let (run_id, conversation_id) = (RunId::from("run_\0"), ConversationId::from("conv_\0"));
    let answers = [
        store.find(&tenant, &run_id).await.map(drop),
        store.context(&tenant, &run_id).await.map(drop),
        store.delete(&tenant, &run_id).await,
        store.conversation(&tenant, &conversation_id).await.map(drop),
        store.annotate_conversation(&tenant, &conversation_id, BTreeMap::new()).await,
        store.delete_conversation(&tenant, &conversation_id).await,
        store.add_entries(&tenant, &conversation_id, entries(&["a"])).await,
        store.remove_entry(&tenant, &conversation_id, &ItemId::from("msg_a")).await,
    ];
    for (n, answer) in answers.iter().enumerate() {
        assert!(matches!(answer, Err(StoreError::NotFound(_))), "{n}: {answer:?}");
    }
}

fn entries(texts: &[&str]) -> Vec<Entry> {
    texts.iter().map(|text| Entry::new(format!("msg_{text}"), Item::user(*text))).collect()
}

fn conversation(id: &str) -> ConversationRecord {
    let (id, created_at) = (ConversationId::from(id), Timestamp::from_micros(7));
    ConversationRecord { id, created_at, metadata: BTreeMap::new() }
}

fn run(id: &str, tenant: &str, conversation: Option<&str>) -> NewRun {
    let mut request = RunRequest::new("any", vec![Item::user("hi")]);
    request.tenant = TenantId::from(tenant);
    request.conversation_id = conversation.map(ConversationId::from);
    let created_at = Timestamp::from_micros(1);
    NewRun::new(RunId::from(id), created_at, Arc::new(request))
}

async fn a_conversation_has_one_active_run(store: &dyn RunStore) {
    store.create(run("run_c1", "t", Some("conv_c"))).await.expect("it is free");
    let second = store.create(run("run_c2", "t", Some("conv_c"))).await;
    assert!(matches!(second, Err(StoreError::Busy { .. })), "I13: {second:?}");
    let tenant = TenantId::from("t");
    let restored = store.restore(&tenant, conversation("conv_c"), Vec::new()).await;
    assert!(matches!(restored, Err(StoreError::Busy { .. })), "replaced while in use");
    let items = entries(&["hi", "hello"]);
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
    let first = store.finish(&id, RunOutcome::Completed, entries(&["once"])).await;
    first.expect("it is active");
    let second = store.finish(&id, RunOutcome::Cancelled, entries(&["twice"])).await;
    second.expect("it is ignored");
    let record = store.find(&TenantId::from("t"), &id).await.expect("it is there");
    assert_eq!(record.status, RunStatus::Finished { outcome: RunOutcome::Completed });
    let history = store.history(&TenantId::from("t"), &ConversationId::from("conv_f")).await;
    assert_eq!(history.expect("it is there"), entries(&["once"]));
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
    let (id, items) = (RunId::from("run_t"), entries(&["x"]));
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
    let items = entries(&["before", "yes"]);
    store.restore(&tenant, conversation("conv_r"), items.clone()).await.expect("it is new");
    assert_eq!(store.history(&tenant, &id).await.expect("it is there"), items);
}

async fn a_run_continues_another(store: &dyn RunStore) {
    let tenant = TenantId::from("chain");
    let (first, second) = (RunId::from("run_k1"), RunId::from("run_k2"));
    let follower = |id: &str, before: &RunId| {
        let mut run = run(id, "chain", None);
        let mut request = RunRequest::clone(&run.request);
        request.continues = Some(before.clone());
        run.request = Arc::new(request);
        run
    };
    store.create(run("run_k1", "chain", None)).await.expect("it is new");
    let too_early = store.create(follower("run_k2", &first)).await;
    assert!(matches!(too_early, Err(StoreError::Unfinished(_))), "{too_early:?}");
    let too_early = store.context(&tenant, &first).await;
    assert!(matches!(too_early, Err(StoreError::Unfinished(_))), "{too_early:?}");
    let outcome = RunOutcome::Completed;
    store.finish(&first, outcome.clone(), entries(&["a", "b"])).await.expect("it is active");
    store.create(follower("run_k2", &first)).await.expect("its predecessor is finished");
    store.finish(&second, outcome, entries(&["c"])).await.expect("it is active");
    let context = store.context(&tenant, &second).await.expect("it is finished");
    assert_eq!(context, entries(&["a", "b", "c"]));
    let names = ["msg_c", "msg_a", "msg_none"].map(ItemId::from);
    let mut found = store.entries_named(&tenant, &names).await.expect("it can be asked");
    found.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(found, entries(&["a", "c"]), "each once");
    let theirs = store.entries_named(&TenantId::from("other"), &names).await;
    assert_eq!(theirs.expect("it can be asked"), [], "A1");
    let theirs = store.context(&TenantId::from("other"), &second).await;
    assert!(matches!(theirs, Err(StoreError::NotFound(_))), "A1: {theirs:?}");
    // A deleted run cannot be continued. A run that continued it still can.
    store.delete(&tenant, &first).await.expect("it is finished");
    let gone = store.create(follower("run_k3", &first)).await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
    let context = store.context(&tenant, &second).await.expect("it is finished");
    assert_eq!(context, entries(&["a", "b", "c"]));
}

async fn a_forgotten_run_is_gone(store: &dyn RunStore) {
    let (tenant, id) = (TenantId::from("forgetful"), RunId::from("run_g"));
    store.create(run("run_g", "forgetful", Some("conv_g"))).await.expect("it is new");
    let active = store.delete(&tenant, &id).await;
    assert!(matches!(active, Err(StoreError::Unfinished(_))), "{active:?}");
    store.finish(&id, RunOutcome::Completed, entries(&["kept"])).await.expect("it is active");
    let theirs = store.delete(&TenantId::from("other"), &id).await;
    assert!(matches!(theirs, Err(StoreError::NotFound(_))), "A1: {theirs:?}");
    store.delete(&tenant, &id).await.expect("it is finished");
    let gone = store.find(&tenant, &id).await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
    let history = store.history(&tenant, &ConversationId::from("conv_g")).await;
    assert_eq!(history.expect("it stays"), entries(&["kept"]));
}

async fn a_conversation_is_kept_by_hand(store: &dyn RunStore) {
    let (tenant, id) = (TenantId::from("t"), ConversationId::from("conv_h"));
    store.open_conversation(&tenant, conversation("conv_h")).await.expect("it is new");
    let again = store.open_conversation(&tenant, conversation("conv_h")).await;
    assert!(matches!(again, Err(StoreError::Exists(_))), "{again:?}");
    store.add_entries(&tenant, &id, entries(&["a", "b"])).await.expect("it is there");
    store.remove_entry(&tenant, &id, &ItemId::from("msg_a")).await.expect("it is in there");
    let missing = store.remove_entry(&tenant, &id, &ItemId::from("msg_a")).await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
    assert_eq!(store.history(&tenant, &id).await.expect("it is there"), entries(&["b"]));
    let notes = BTreeMap::from([("topic".to_owned(), "tea".to_owned())]);
    store.annotate_conversation(&tenant, &id, notes.clone()).await.expect("it is there");
    let found = store.conversation(&tenant, &id).await.expect("it is there");
    assert_eq!(found, ConversationRecord { metadata: notes, ..conversation("conv_h") });
    let other = TenantId::from("other");
    let theirs = store.conversation(&other, &id).await;
    assert!(matches!(theirs, Err(StoreError::NotFound(_))), "A1: {theirs:?}");
    let theirs = store.add_entries(&other, &id, entries(&["x"])).await;
    assert!(matches!(theirs, Err(StoreError::NotFound(_))), "A1: {theirs:?}");
    let theirs = store.delete_conversation(&other, &id).await;
    assert!(matches!(theirs, Err(StoreError::NotFound(_))), "A1: {theirs:?}");
    store.delete_conversation(&tenant, &id).await.expect("it is there");
    let gone = store.conversation(&tenant, &id).await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
}

async fn a_busy_conversation_is_left_alone(store: &dyn RunStore) {
    let (tenant, id) = (TenantId::from("t"), ConversationId::from("conv_b"));
    store.create(run("run_b", "t", Some("conv_b"))).await.expect("it is free");
    let busy = [
        store.add_entries(&tenant, &id, entries(&["x"])).await,
        store.remove_entry(&tenant, &id, &ItemId::from("msg_x")).await,
        store.delete_conversation(&tenant, &id).await,
    ];
    for refused in busy {
        assert!(matches!(refused, Err(StoreError::Busy { .. })), "C8: {refused:?}");
    }
    let active = async |tenant: &str, id: &str| {
        store.active_run(&TenantId::from(tenant), &ConversationId::from(id)).await
    };
    assert_eq!(active("t", "conv_b").await.expect("it is read"), Some(RunId::from("run_b")));
    for (tenant, id) in [("other", "conv_b"), ("t", "conv_none")] {
        assert_eq!(active(tenant, id).await.expect("it is read"), None, "A1: {tenant} {id}");
    }
    store.finish(&RunId::from("run_b"), RunOutcome::Completed, Vec::new()).await.expect("active");
    assert_eq!(active("t", "conv_b").await.expect("it is read"), None);
}

/// What a run replaces leaves the conversation with its start, and stays with the runs that had it.
async fn a_run_replaces_the_end_of_a_conversation(store: &dyn RunStore) {
    let (tenant, id) = (TenantId::from("t"), ConversationId::from("conv_s"));
    let replacing = |run_id: &str, from: &str| {
        let mut new = run(run_id, "t", Some("conv_s"));
        Arc::make_mut(&mut new.request).replaces = Some(ItemId::from(from));
        new
    };
    let finish = async |run_id: &str, texts: &[&str]| {
        let run_id = RunId::from(run_id);
        store.finish(&run_id, RunOutcome::Completed, entries(texts)).await.expect("it is active");
    };
    let context = async |run_id: &str| {
        store.context(&tenant, &RunId::from(run_id)).await.expect("it is finished")
    };
    store.restore(&tenant, conversation("conv_s"), entries(&["old"])).await.expect("it is new");
    for (run_id, texts) in [("run_s1", ["q1", "a1"]), ("run_s2", ["q2", "a2"])] {
        store.create(run(run_id, "t", Some("conv_s"))).await.expect("it is free");
        finish(run_id, &texts).await;
    }
    let missing = store.create(replacing("run_s3", "msg_none")).await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))), "{missing:?}");
    let whole = entries(&["old", "q1", "a1", "q2", "a2"]);
    assert_eq!(store.history(&tenant, &id).await.expect("it is there"), whole, "nothing is lost");

    store.create(replacing("run_s4", "msg_q1")).await.expect("it is free");
    assert_eq!(store.history(&tenant, &id).await.expect("it is there"), entries(&["old"]));
    finish("run_s4", &["q1", "b1"]).await;
    let again = store.create(replacing("run_s5", "msg_a1")).await;
    assert!(matches!(again, Err(StoreError::NotFound(_))), "it was replaced: {again:?}");
    store.create(run("run_s6", "t", Some("conv_s"))).await.expect("it is free");
    finish("run_s6", &["q3", "a3"]).await;
    let left = entries(&["old", "q1", "b1", "q3", "a3"]);
    assert_eq!(store.history(&tenant, &id).await.expect("it is there"), left);

    assert_eq!(context("run_s1").await, entries(&["old", "q1", "a1"]));
    assert_eq!(context("run_s2").await, whole, "what was replaced is what it had seen");
    assert_eq!(context("run_s4").await, entries(&["old", "q1", "b1"]));
    assert_eq!(context("run_s6").await, left);
    let named = store.entries_named(&tenant, &[ItemId::from("msg_a2")]).await;
    assert_eq!(named.expect("it is read"), entries(&["a2"]));
}

async fn a_request_with_a_key_makes_one_run(store: &dyn RunStore) {
    let sent = |id: &str, tenant: &str, endpoint: &str, fingerprint: &str| NewRun {
        idempotency_key: Some(IdempotencyKey {
            endpoint: endpoint.to_owned(),
            key: "key".to_owned(),
            fingerprint: fingerprint.to_owned(),
        }),
        ..run(id, tenant, None)
    };
    let (one, other) = tokio::join!(
        store.create(sent("run_key1", "keys", "/a", "same")),
        store.create(sent("run_key2", "keys", "/a", "same")),
    );
    let (one, other) = (one.expect("it is new or known"), other.expect("it is new or known"));
    let (first, created) = match (&one, &other) {
        (Created::RowOnly, Created::Existing(before)) => ("run_key1", before),
        (Created::Existing(before), Created::RowOnly) => ("run_key2", before),
        both => panic!("C9: {both:?}"),
    };
    assert_eq!(created.as_str(), first, "C9: the second finds the first");
    let listed = store.list(&TenantId::from("keys"), 10).await.expect("it can be listed");
    assert_eq!(listed.len(), 1, "C9: {listed:?}");
    let different = store.create(sent("run_key3", "keys", "/a", "different")).await;
    assert!(matches!(different, Err(StoreError::IdempotencyKeyReused(_))), "C9: {different:?}");
    for (tenant, endpoint) in [("keys", "/b"), ("other", "/a")] {
        let id = format!("run_key_{tenant}");
        let created = store.create(sent(&id, tenant, endpoint, "same")).await;
        assert_eq!(
            created.expect("it is another key"),
            Created::RowOnly,
            "C9: {tenant} {endpoint}"
        );
    }
    let again = store.create(sent("run_key4", "keys", "/a", "same")).await;
    assert_eq!(again.expect("it is known"), Created::Existing(RunId::from(first)), "C9");
    let find_by_key = async |tenant: &str, endpoint: &str, fingerprint: &str| {
        let NewRun { idempotency_key: key, created_at, .. } =
            sent("", tenant, endpoint, fingerprint);
        store.find_by_key(&TenantId::from(tenant), &key.expect("it has one"), created_at).await
    };
    let made = find_by_key("keys", "/a", "same").await;
    assert_eq!(made.expect("it is known"), Some(RunId::from(first)), "C9: it is found");
    let made = find_by_key("keys", "/c", "same").await;
    assert_eq!(made.expect("it is another key"), None, "C9: nobody used it there");
    let different = find_by_key("keys", "/a", "different").await;
    assert!(matches!(different, Err(StoreError::IdempotencyKeyReused(_))), "C9: {different:?}");
    let (keys, first) = (TenantId::from("keys"), RunId::from(first));
    store.finish(&first, RunOutcome::Completed, Vec::new()).await.expect("it ends");
    store.delete(&keys, &first).await.expect("it is forgotten");
    assert_eq!(
        find_by_key("keys", "/a", "same").await.expect("it is free"),
        None,
        "C9: it is gone"
    );
    let anew = store.create(sent("run_key5", "keys", "/a", "other")).await;
    assert_eq!(
        anew.expect("the key is free"),
        Created::RowOnly,
        "C9: with its run, its key is gone"
    );
}

async fn what_is_allowed_goes_with_its_conversation(store: &dyn RunStore) {
    let (ours, theirs) = (TenantId::from("allowing"), TenantId::from("not allowing"));
    let id = ConversationId::from("conv_allowed");
    let tool = |name: &str| Allowed { tool: name.to_owned(), definition: "1".to_owned() };
    let allowed = async |tenant: &TenantId| {
        let mut allowed = store.allowed(tenant, &id).await.expect("the store answers");
        allowed.sort_by(|one, other| one.tool.cmp(&other.tool));
        allowed
    };
    assert_eq!(allowed(&ours).await, [], "nothing is there yet");
    for tenant in [&ours, &theirs] {
        store
            .open_conversation(tenant, conversation("conv_allowed"))
            .await
            .expect("the store answers");
    }
    // Also while a run is active, because approvals happen then.
    store
        .create(run("run_allowing", "allowing", Some("conv_allowed")))
        .await
        .expect("the store answers");
    for name in ["b", "a", "b"] {
        store.allow(&ours, &id, tool(name)).await.expect("the store answers");
    }
    assert_eq!(allowed(&ours).await, [tool("a"), tool("b")], "twice is as good as once");
    assert_eq!(allowed(&theirs).await, [], "another tenant has another conversation");
    store
        .finish(&RunId::from("run_allowing"), RunOutcome::Completed, Vec::new())
        .await
        .expect("the store answers");
    store.delete_conversation(&ours, &id).await.expect("the store answers");
    store.open_conversation(&ours, conversation("conv_allowed")).await.expect("the store answers");
    assert_eq!(allowed(&ours).await, [], "forgotten with the conversation");
}
