//! Contract of [`BlobStore`].

use turnwire_contract::{BlobError, BlobId, BlobStore, RunId, TenantId};

/// Runs the whole suite on `store`, which may contain other blobs.
pub async fn check(store: &dyn BlobStore) {
    what_was_put_is_there(store).await;
    tenants_do_not_see_each_other(store).await;
    a_forgotten_run_leaves_nothing(store).await;
}

async fn what_was_put_is_there(store: &dyn BlobStore) {
    let (tenant, id) = (TenantId::from("t"), BlobId::from("blob_kept"));
    let text = "line\n\u{0}é🦀".repeat(100_000);
    store.put(&tenant, &RunId::from("run_kept"), &id, text.clone()).await.expect("there is room");
    assert!(store.get(&tenant, &id).await.expect("it is there") == text, "another text came back");
    let unknown = store.get(&tenant, &BlobId::from("blob_unknown")).await;
    assert!(matches!(unknown, Err(BlobError::NotFound(_))), "{unknown:?}");
}

async fn tenants_do_not_see_each_other(store: &dyn BlobStore) {
    let (one, other, id) = (TenantId::from("one"), TenantId::from("other"), "blob_shared".into());
    let run_id = RunId::from("run_shared");
    store.put(&one, &run_id, &id, "mine".to_owned()).await.expect("there is room");
    let theirs = store.get(&other, &id).await;
    assert!(matches!(theirs, Err(BlobError::NotFound(_))), "A1: {theirs:?}");
    store
        .put(&other, &run_id, &id, "theirs".to_owned())
        .await
        .expect("another tenant's id is another");
    assert_eq!(store.get(&one, &id).await.expect("it is there"), "mine");
}

async fn a_forgotten_run_leaves_nothing(store: &dyn BlobStore) {
    let (tenant, other) = (TenantId::from("forgetful"), TenantId::from("other"));
    let (gone, kept) = (RunId::from("run_gone"), RunId::from("run_stays"));
    for (run_id, id) in [(&gone, "blob_1"), (&gone, "blob_2"), (&kept, "blob_3")] {
        store.put(&tenant, run_id, &id.into(), id.to_owned()).await.expect("there is room");
    }
    store.delete(&other, &gone).await.expect("they have none");
    store.get(&tenant, &"blob_1".into()).await.expect("A1: it is not theirs to forget");
    store.delete(&tenant, &gone).await.expect("it is there");
    for id in ["blob_1", "blob_2"] {
        let left = store.get(&tenant, &id.into()).await;
        assert!(matches!(left, Err(BlobError::NotFound(_))), "C25: {left:?}");
    }
    store.get(&tenant, &"blob_3".into()).await.expect("it is of another run");
    store.delete(&tenant, &gone).await.expect("nothing is left to forget");
}
