//! The promises of [`BlobStore`].

use turnwire_contract::{BlobError, BlobId, BlobStore, TenantId};

/// Runs the whole suite on `store`, which may have other texts in it.
pub async fn check(store: &dyn BlobStore) {
    what_was_put_is_there(store).await;
    tenants_do_not_see_each_other(store).await;
}

async fn what_was_put_is_there(store: &dyn BlobStore) {
    let (tenant, id) = (TenantId::from("t"), BlobId::from("blob_kept"));
    let text = "line\n\u{0}é🦀".repeat(100_000);
    store.put(&tenant, &id, text.clone()).await.expect("there is room");
    assert!(store.get(&tenant, &id).await.expect("it is there") == text, "another text came back");
    let unknown = store.get(&tenant, &BlobId::from("blob_unknown")).await;
    assert!(matches!(unknown, Err(BlobError::NotFound(_))), "{unknown:?}");
}

async fn tenants_do_not_see_each_other(store: &dyn BlobStore) {
    let (one, other, id) = (TenantId::from("one"), TenantId::from("other"), "blob_shared".into());
    store.put(&one, &id, "mine".to_owned()).await.expect("there is room");
    let theirs = store.get(&other, &id).await;
    assert!(matches!(theirs, Err(BlobError::NotFound(_))), "A1: {theirs:?}");
    store.put(&other, &id, "theirs".to_owned()).await.expect("another tenant's id is another");
    assert_eq!(store.get(&one, &id).await.expect("it is there"), "mine");
}
