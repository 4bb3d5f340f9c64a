use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use turnwire_contract::{
    Attachment, Attachments, CollectionId, CollectionNotes, CollectionRecord, Collections, FileId,
    FileRecord, Files, Query, TenantId, Timestamp,
};

use super::MemoryLibrary;
use crate::{
    file_search::{DefaultAnalyzer, Indexer},
    sync::write,
};

fn at() -> Timestamp {
    Timestamp::from_micros(1)
}

fn record(id: &str) -> FileRecord {
    let (name, purpose) = (format!("{id}.md"), "assistants".to_owned());
    let id = FileId::from(id);
    FileRecord { id, name, bytes: 0, purpose, created_at: at(), expires_at: None }
}

/// A collection with one file about walruses.
async fn fill(library: &Arc<MemoryLibrary>, tenant: &TenantId, id: &CollectionId) {
    let notes = CollectionNotes::default();
    let (created_at, last_active_at) = (at(), at());
    let collection = CollectionRecord { id: id.clone(), created_at, last_active_at, notes };
    library.open_collection(tenant, collection).await.unwrap();
    let file = record(&format!("file-{id}"));
    let file_id = file.id.clone();
    library.add_file(tenant, file, b"Walruses have tusks.".as_slice().into()).await.unwrap();
    library.attach(tenant, id, None, vec![Attachment::new(file_id, at())]).await.unwrap();
    let indexer = Indexer::new(library.clone(), Arc::new(DefaultAnalyzer::default()), None);
    assert_eq!(indexer.work_off().await, Ok(1));
}

/// A long search or update of a collection blocks no other tenant, no other collection, and not
/// even a listing of the same collection.
#[tokio::test]
async fn a_busy_collection_holds_up_nobody_else() {
    let library = Arc::new(MemoryLibrary::new());
    let (tenant, other_tenant) = (TenantId::from("t1"), TenantId::from("t2"));
    let (busy, idle) = (CollectionId::from("busy"), CollectionId::from("idle"));
    for tenant in [&tenant, &other_tenant] {
        fill(&library, tenant, &busy).await;
        fill(&library, tenant, &idle).await;
    }
    let index = library.tenant_library(&tenant).collection(&busy).unwrap();
    let (is_held, held) = mpsc::channel();
    let (let_go, released) = mpsc::channel::<()>();
    let holding = thread::spawn(move || {
        let _index = write(&index.index);
        is_held.send(()).unwrap();
        // If a call below blocks the test's thread, the lock is never released.
        released.recv_timeout(Duration::from_secs(5)).is_ok()
    });
    held.recv().unwrap();

    let query = Query::new("walruses", 5);
    let one = std::slice::from_ref;
    let mut waiting = library.search(&tenant, one(&busy), &query);
    assert!(futures::poll!(&mut waiting).is_pending(), "this one has to wait");
    let others = async {
        library.add_file(&tenant, record("file-new"), b"New.".as_slice().into()).await.unwrap();
        assert_eq!(library.files(&tenant).await.unwrap().len(), 3);
        assert_eq!(library.collections(&tenant).await.unwrap().len(), 2);
        assert_eq!(library.attachments(&tenant, &busy).await.unwrap().len(), 1);
        let notes = CollectionNotes::default();
        library.annotate_collection(&tenant, &busy, notes).await.unwrap();
        assert_eq!(library.search(&tenant, one(&idle), &query).await.unwrap().chunks.len(), 1);
        assert_eq!(
            library.search(&other_tenant, one(&busy), &query).await.unwrap().chunks.len(),
            1
        );
    };
    others.await;
    let _ = let_go.send(());
    assert!(holding.join().unwrap(), "nobody else has to wait");
    assert_eq!(waiting.await.unwrap().chunks.len(), 1);
}
