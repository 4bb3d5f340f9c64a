use std::sync::Arc;

use turnwire_contract::{CollectionId, FileId, TenantId, Timestamp};

use super::{Batch, Batches, MAX_BATCHES, MAX_FILES_KEPT, Tried};

fn batch(id: &str, files: Vec<Tried>) -> Arc<Batch> {
    let (collection, created_at) = (CollectionId::from("vs_1"), Timestamp::from_micros(1));
    Arc::new(Batch { id: id.to_owned(), collection, created_at, files })
}

fn tried(id: &str, refused: Option<&str>) -> Tried {
    Tried { file_id: id.into(), refused: refused.map(str::to_owned) }
}

fn is_kept(batches: &Batches, id: &str) -> bool {
    batches.find(&TenantId::default(), &"vs_1".into(), id).is_some()
}

/// A1: a batch is found by its tenant, in its store, and by nobody else.
#[test]
fn a_batch_is_found_where_it_belongs() {
    let batches = Batches::default();
    let (ours, theirs) = (TenantId::default(), TenantId::from("somebody else"));
    let file = FileId::from("file_1");
    let kept = batch("vsfb_1", vec![tried("file_1", Some("no"))]);
    batches.keep(&ours, Arc::clone(&kept));
    let (here, elsewhere) = (CollectionId::from("vs_1"), CollectionId::from("vs_2"));
    assert_eq!(batches.find(&ours, &here, "vsfb_1"), Some(kept));
    assert_eq!(batches.find(&theirs, &here, "vsfb_1"), None);
    assert_eq!(batches.find(&ours, &elsewhere, "vsfb_1"), None);
    assert_eq!(batches.find(&ours, &here, "vsfb_2"), None);
    let reason = (Timestamp::from_micros(1), "no".to_owned());
    assert_eq!(batches.refusal(&ours, &here, &file), Some(reason));
    assert_eq!(batches.refusal(&theirs, &here, &file), None);
    assert_eq!(batches.refusal(&ours, &elsewhere, &file), None);
    assert_eq!(batches.refusal(&ours, &here, &"file_2".into()), None);
}

#[test]
fn a_file_that_was_attached_was_not_refused() {
    let batches = Batches::default();
    batches.keep(&TenantId::default(), batch("vsfb_1", vec![tried("file_1", None)]));
    assert_eq!(batches.refusal(&TenantId::default(), &"vs_1".into(), &"file_1".into()), None);
}

/// A13: as many batches as the limit says are kept; with one more the oldest goes, and those of
/// other tenants stay.
#[test]
fn the_oldest_batch_goes_first() {
    let (batches, other) = (Batches::default(), TenantId::from("somebody else"));
    batches.keep(&other, batch("vsfb_other", Vec::new()));
    for n in 0..MAX_BATCHES {
        batches.keep(&TenantId::default(), batch(&format!("vsfb_{n}"), Vec::new()));
    }
    assert!(is_kept(&batches, "vsfb_0"));
    batches.keep(&TenantId::default(), batch("vsfb_new", Vec::new()));
    assert!(!is_kept(&batches, "vsfb_0"));
    assert!(is_kept(&batches, "vsfb_1") && is_kept(&batches, "vsfb_new"));
    assert!(batches.find(&other, &"vs_1".into(), "vsfb_other").is_some());
}

/// A13: the same goes for their files.
#[test]
fn the_files_of_all_batches_have_a_limit() {
    let batches = Batches::default();
    let files = |n: usize| vec![tried("file_1", None); n];
    batches.keep(&TenantId::default(), batch("vsfb_1", files(1)));
    batches.keep(&TenantId::default(), batch("vsfb_2", files(MAX_FILES_KEPT - 1)));
    assert!(is_kept(&batches, "vsfb_1"));
    batches.keep(&TenantId::default(), batch("vsfb_3", files(1)));
    assert!(!is_kept(&batches, "vsfb_1"));
    assert!(is_kept(&batches, "vsfb_2") && is_kept(&batches, "vsfb_3"));
}
