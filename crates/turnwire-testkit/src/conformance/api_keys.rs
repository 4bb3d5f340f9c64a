//! Contract of [`ApiKeys`].

use std::time::Duration;

use turnwire_contract::{ApiKey, ApiKeys, Scope, TenantId, Timestamp};

/// Runs the whole suite on `keys`, which has none yet.
pub async fn check(keys: &dyn ApiKeys) {
    assert!(!keys.has_keys().await.expect("it can be asked"), "none was created");
    let (one, two, other) = (key("key_1", "a", 1), key("key_2", "a", 2), key("key_3", "b", 3));
    for new in [&one, &two, &other] {
        keys.create_key(new.clone()).await.expect("there is room");
    }
    assert!(keys.has_keys().await.expect("it can be asked"));
    is_found_and_listed(keys, [&one, &two, &other]).await;
    let revoke = async |tenant: Option<&str>, id: &str, at: i64| {
        let tenant = tenant.map(TenantId::from);
        keys.revoke_key(tenant.as_ref(), id, time(at)).await.expect("it can be asked")
    };
    assert_eq!(revoke(Some("b"), "key_1", 10).await, None, "of another tenant");
    assert_eq!(revoke(None, "key_9", 10).await, None);
    assert_eq!(revoke(None, "key_\0", 10).await, None);
    let revoked = revoke(Some("a"), "key_1", 10).await.expect("there is one");
    assert_eq!(revoked.revoked_at, Some(time(10)));
    assert!(!revoked.is_valid_at(time(11)));
    let again = revoke(None, "key_1", 20).await.expect("there is one");
    assert_eq!(again.revoked_at, Some(time(10)), "the first revocation counts");
    let found = keys.find_key(&one.digest).await.expect("it can be asked");
    assert_eq!(found, Some(again), "a revoked key is found and says so");
    rotates(keys, &two).await;
    let changed = keys.changed_keys(Duration::from_mins(1)).await.expect("they can be listed");
    let mut changed: Vec<&str> = changed.iter().map(|key| key.key_id.as_str()).collect();
    changed.sort_unstable();
    assert!(changed.starts_with(&["key_1", "key_2"]), "{changed:?}");
    let uses = [("key_3".to_owned(), time(50)), ("key_none".to_owned(), time(1))];
    keys.note_uses(&uses).await.expect("it can be stored");
    keys.note_uses(&[("key_3".to_owned(), time(40))]).await.expect("it can be stored");
    let found = keys.find_key(&other.digest).await.expect("it can be asked");
    assert_eq!(found.and_then(|key| key.last_used_at), Some(time(50)), "the latest use counts");
}

async fn is_found_and_listed(keys: &dyn ApiKeys, all: [&ApiKey; 3]) {
    let [one, two, other] = all.map(Clone::clone);
    let list = async |tenant: Option<&str>| {
        let tenant = tenant.map(TenantId::from);
        keys.list_keys(tenant.as_ref()).await.expect("they can be listed")
    };
    assert_eq!(list(Some("a")).await, [one.clone(), two.clone()]);
    assert_eq!(list(None).await, [one.clone(), two, other]);
    assert_eq!(list(Some("nobody")).await, []);
    let found = keys.find_key(&one.digest).await.expect("it can be asked");
    assert_eq!(found, Some(one), "everything is stored");
    assert_eq!(keys.find_key("0000").await.expect("it can be asked"), None);
}

async fn rotates(keys: &dyn ApiKeys, old: &ApiKey) {
    let rotate = async |id: &str, new: ApiKey| {
        keys.rotate_key(id, time(100), new).await.expect("it can be stored")
    };
    assert!(!rotate("key_1", key("key_4", "a", 30)).await, "it is revoked");
    assert!(!rotate(&old.key_id, key("key_4", "b", 30)).await, "of another tenant");
    assert_eq!(keys.find_key(&digest("key_4")).await.expect("it can be asked"), None);
    assert!(rotate(&old.key_id, key("key_4", "a", 30)).await);
    let rotated = keys.find_key(&old.digest).await.expect("it can be asked").expect("it stays");
    assert_eq!(rotated.expires_at, Some(time(100)), "the old one stays valid for a while");
    assert_eq!(rotated.replaced_by.as_deref(), Some("key_4"));
    assert!(!rotate(&old.key_id, key("key_5", "a", 31)).await, "it was rotated already");
    assert!(keys.find_key(&digest("key_4")).await.expect("it can be asked").is_some());
    assert!(keys.rotate_key("key_4", time(40), key("key_5", "a", 40)).await.expect("it is stored"));
    let ended = keys.find_key(&digest("key_4")).await.expect("it can be asked");
    assert_eq!(ended.and_then(|key| key.revoked_at), Some(time(40)), "without overlap it ends");
}

fn key(id: &str, tenant: &str, at: i64) -> ApiKey {
    ApiKey {
        key_id: id.to_owned(),
        tenant: TenantId::from(tenant),
        project: (at % 2 == 0).then(|| "search".to_owned()),
        name: format!("Key of {tenant}"),
        prefix: "tw_abc".to_owned(),
        digest: digest(id),
        scopes: [Scope::RunsRead, Scope::Approve].into(),
        created_at: time(at),
        expires_at: (at == 2).then(|| time(1_000)),
        revoked_at: None,
        last_used_at: None,
        replaced_by: None,
    }
}

fn digest(id: &str) -> String {
    format!("digest of {id}")
}

fn time(at: i64) -> Timestamp {
    Timestamp::from_micros(at)
}
