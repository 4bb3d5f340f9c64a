use std::{collections::BTreeMap, sync::mpsc, thread, time::Duration};

use serde_json::Map;
use turnwire_contract::{
    Attachment, CollectionId, CollectionRecord, FileId, FileRecord, Library, Query, TenantId,
    Timestamp,
};

use super::MemoryLibrary;
use crate::sync::write;

fn at() -> Timestamp {
    Timestamp::from_micros(1)
}

fn record(id: &str) -> FileRecord {
    let (name, purpose) = (format!("{id}.md"), "assistants".to_owned());
    FileRecord { id: FileId::from(id), name, bytes: 0, purpose, created_at: at() }
}

/// A collection with one file about walruses.
async fn fill(library: &MemoryLibrary, tenant: &TenantId, id: &CollectionId) {
    let (name, metadata) = (id.to_string(), BTreeMap::new());
    let collection = CollectionRecord { id: id.clone(), name, created_at: at(), metadata };
    library.open_collection(tenant, collection).await.unwrap();
    let file = record(&format!("file-{id}"));
    let file_id = file.id.clone();
    library.add_file(tenant, file, b"Walruses have tusks.".as_slice().into()).await.unwrap();
    let attachment = Attachment { file_id, created_at: at(), attributes: Map::new() };
    library.attach(tenant, id, attachment).await.unwrap();
}

/// However long a collection is searched or filled, nobody else waits for it: no other
/// tenant, no other collection, and not even who only asks what is in this one.
#[tokio::test]
async fn a_busy_collection_holds_up_nobody_else() {
    let library = MemoryLibrary::new();
    let (tenant, other_tenant) = (TenantId::from("t1"), TenantId::from("t2"));
    let (busy, idle) = (CollectionId::from("busy"), CollectionId::from("idle"));
    for tenant in [&tenant, &other_tenant] {
        fill(&library, tenant, &busy).await;
        fill(&library, tenant, &idle).await;
    }
    let index = library.shelf(&tenant).collection(&busy).unwrap();
    let (is_held, held) = mpsc::channel();
    let (let_go, released) = mpsc::channel::<()>();
    let holding = thread::spawn(move || {
        let _index = write(&index.index);
        is_held.send(()).unwrap();
        // Whoever waits for it on the test's own thread cannot let it go.
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
        library.annotate_collection(&tenant, &busy, "B".into(), BTreeMap::new()).await.unwrap();
        assert_eq!(library.search(&tenant, one(&idle), &query).await.unwrap().len(), 1);
        assert_eq!(library.search(&other_tenant, one(&busy), &query).await.unwrap().len(), 1);
    };
    others.await;
    let _ = let_go.send(());
    assert!(holding.join().unwrap(), "nobody else has to wait");
    assert_eq!(waiting.await.unwrap().len(), 1);
}

/// A file that is attached again is found once, with its new attributes.
#[tokio::test]
async fn attaching_again_replaces() {
    let library = MemoryLibrary::new();
    let (tenant, id) = (TenantId::from("t1"), CollectionId::from("sea"));
    fill(&library, &tenant, &id).await;
    let attributes = Map::from_iter([("year".to_owned(), 2024.into())]);
    let file_id = FileId::from("file-sea");
    let attachment = Attachment { file_id, created_at: at(), attributes: attributes.clone() };
    library.attach(&tenant, &id, attachment).await.unwrap();
    let found = library.search(&tenant, &[id], &Query::new("walruses", 5)).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].attributes, attributes);
}
