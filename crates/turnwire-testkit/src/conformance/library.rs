//! The promises of [`Library`].

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};
use turnwire_contract::{
    Attachment, CollectionId, CollectionRecord, Comparison, FileId, FileRecord, Filter, Library,
    LibraryError, Passage, Query, TenantId, Timestamp,
};

/// Runs the whole suite on `library`, which may have other files in it.
pub async fn check(library: &dyn Library) {
    what_was_handed_in_is_there(library).await;
    the_newest_come_first(library).await;
    a_removed_file_is_gone(library).await;
    a_collection_is_kept(library).await;
    an_attached_file_is_found(library).await;
    an_attachment_can_be_changed(library).await;
    the_best_passages_come_first(library).await;
    a_question_can_be_narrowed(library).await;
    several_collections_are_searched_together(library).await;
    what_is_no_text_cannot_be_searched(library).await;
    what_is_not_there_is_not_found(library).await;
    tenants_do_not_see_each_other(library).await;
}

fn tenant(name: &str) -> TenantId {
    TenantId::from(format!("library_{name}").as_str())
}

fn file(id: &str, at: i64) -> FileRecord {
    FileRecord {
        id: FileId::from(id),
        name: format!("{id}.txt"),
        bytes: 0,
        purpose: "assistants".to_owned(),
        created_at: Timestamp::from_micros(at),
    }
}

fn collection(id: &str, at: i64) -> CollectionRecord {
    CollectionRecord {
        id: CollectionId::from(id),
        name: format!("The {id}"),
        created_at: Timestamp::from_micros(at),
        metadata: BTreeMap::new(),
    }
}

fn attachment(file: &str, attributes: Value) -> Attachment {
    let Value::Object(attributes) = attributes else { unreachable!("attributes are an object") };
    Attachment { file_id: FileId::from(file), created_at: Timestamp::from_micros(3), attributes }
}

async fn add(library: &dyn Library, tenant: &TenantId, id: &str, text: &str) {
    let content: Arc<[u8]> = text.as_bytes().into();
    library.add_file(tenant, file(id, 1), content).await.expect("there is room");
}

async fn open(library: &dyn Library, tenant: &TenantId, id: &str, files: &[&str]) {
    library.open_collection(tenant, collection(id, 1)).await.expect("it is new");
    for file in files {
        library
            .attach(tenant, &CollectionId::from(id), attachment(file, json!({})))
            .await
            .expect("the file is there and has text");
    }
}

async fn search(library: &dyn Library, tenant: &TenantId, id: &str, text: &str) -> Vec<Passage> {
    let collections = [CollectionId::from(id)];
    library.search(tenant, &collections, &Query::new(text, 10)).await.expect("it is there")
}

fn found(passages: &[Passage]) -> Vec<&str> {
    passages.iter().map(|passage| passage.file_id.as_str()).collect()
}

fn is_not_found<T: std::fmt::Debug>(result: Result<T, LibraryError>) {
    assert!(matches!(result, Err(LibraryError::NotFound(_))), "A1: {result:?}");
}

async fn what_was_handed_in_is_there(library: &dyn Library) {
    let tenant = tenant("kept");
    let content: Arc<[u8]> = [0_u8, 255, 10, 13].repeat(50_000).into();
    library.add_file(&tenant, file("file-kept", 1), Arc::clone(&content)).await.expect("it is new");
    let id = FileId::from("file-kept");
    assert!(library.content(&tenant, &id).await.expect("it is there") == content, "it has changed");
    assert_eq!(library.file(&tenant, &id).await, Ok(file("file-kept", 1)));
    let again = library.add_file(&tenant, file("file-kept", 2), content).await;
    assert!(matches!(again, Err(LibraryError::Exists(_))), "{again:?}");
}

async fn the_newest_come_first(library: &dyn Library) {
    let tenant = tenant("lists");
    for (id, at) in [("file-b", 2), ("file-c", 3), ("file-a", 1)] {
        library.add_file(&tenant, file(id, at), b"x".as_slice().into()).await.expect("it is new");
    }
    let files = library.files(&tenant).await.expect("they are there");
    let ids: Vec<&str> = files.iter().map(|file| file.id.as_str()).collect();
    assert_eq!(ids, ["file-c", "file-b", "file-a"]);
    for (id, at) in [("vs_b", 2), ("vs_c", 3), ("vs_a", 1)] {
        library.open_collection(&tenant, collection(id, at)).await.expect("it is new");
    }
    let collections = library.collections(&tenant).await.expect("they are there");
    let ids: Vec<&str> = collections.iter().map(|collection| collection.id.as_str()).collect();
    assert_eq!(ids, ["vs_c", "vs_b", "vs_a"]);
}

async fn a_removed_file_is_gone(library: &dyn Library) {
    let tenant = tenant("removed");
    add(library, &tenant, "file-gone", "walrus").await;
    open(library, &tenant, "vs_gone", &["file-gone"]).await;
    let (id, collection) = (FileId::from("file-gone"), CollectionId::from("vs_gone"));
    library.remove_file(&tenant, &id).await.expect("it is there");
    is_not_found(library.file(&tenant, &id).await);
    is_not_found(library.content(&tenant, &id).await);
    is_not_found(library.attachment(&tenant, &collection, &id).await);
    assert_eq!(search(library, &tenant, "vs_gone", "walrus").await, []);
}

async fn a_collection_is_kept(library: &dyn Library) {
    let tenant = tenant("collections");
    let id = CollectionId::from("vs_kept");
    add(library, &tenant, "file-stays", "walrus").await;
    open(library, &tenant, "vs_kept", &["file-stays"]).await;
    let again = library.open_collection(&tenant, collection("vs_kept", 2)).await;
    assert!(matches!(again, Err(LibraryError::Exists(_))), "{again:?}");
    let notes = BTreeMap::from([("team".to_owned(), "sea".to_owned())]);
    let annotated =
        library.annotate_collection(&tenant, &id, "Animals".to_owned(), notes.clone()).await;
    annotated.expect("it is there");
    let expected = CollectionRecord {
        name: "Animals".to_owned(),
        metadata: notes,
        ..collection("vs_kept", 1)
    };
    assert_eq!(library.collection(&tenant, &id).await, Ok(expected));
    library.remove_collection(&tenant, &id).await.expect("it is there");
    is_not_found(library.collection(&tenant, &id).await);
    is_not_found(library.search(&tenant, &[id], &Query::new("walrus", 1)).await);
    library.file(&tenant, &FileId::from("file-stays")).await.expect("files outlive collections");
}

async fn an_attached_file_is_found(library: &dyn Library) {
    let tenant = tenant("attached");
    let id = CollectionId::from("vs_found");
    add(library, &tenant, "file-found", "The walrus sleeps on the ice.").await;
    open(library, &tenant, "vs_found", &[]).await;
    assert_eq!(search(library, &tenant, "vs_found", "walrus").await, []);
    let attached = attachment("file-found", json!({ "year": 2024 }));
    library.attach(&tenant, &id, attached.clone()).await.expect("both are there");
    let file_id = attached.file_id.clone();
    assert_eq!(library.attachment(&tenant, &id, &file_id).await, Ok(attached.clone()));
    assert_eq!(library.attachments(&tenant, &id).await, Ok(vec![attached.clone()]));

    let passages = search(library, &tenant, "vs_found", "Where does the WALRUS sleep?").await;
    let [passage] = passages.as_slice() else { panic!("one passage fits: {passages:?}") };
    assert_eq!(passage.file_id, file_id);
    assert_eq!(passage.file_name, "file-found.txt");
    assert_eq!(passage.text, "The walrus sleeps on the ice.");
    assert_eq!(passage.attributes, attached.attributes);
    assert!(passage.score > 0.0 && passage.score <= 1.0, "{}", passage.score);

    library.detach(&tenant, &id, &file_id).await.expect("it is attached");
    assert_eq!(search(library, &tenant, "vs_found", "walrus").await, []);
    is_not_found(library.detach(&tenant, &id, &file_id).await);
    library.file(&tenant, &file_id).await.expect("a detached file is still there");
}

async fn an_attachment_can_be_changed(library: &dyn Library) {
    let tenant = tenant("changed");
    let id = CollectionId::from("vs_changed");
    add(library, &tenant, "file-changed", "walrus").await;
    open(library, &tenant, "vs_changed", &["file-changed"]).await;
    let changed = attachment("file-changed", json!({ "draft": true }));
    library.attach(&tenant, &id, changed.clone()).await.expect("again is fine");
    assert_eq!(library.attachments(&tenant, &id).await, Ok(vec![changed.clone()]));
    let passages = search(library, &tenant, "vs_changed", "walrus").await;
    assert_eq!(passages.len(), 1, "it is found once: {passages:?}");
    assert_eq!(passages.first().map(|passage| &passage.attributes), Some(&changed.attributes));
}

async fn the_best_passages_come_first(library: &dyn Library) {
    let tenant = tenant("ranked");
    add(library, &tenant, "file-both", "walrus and penguin").await;
    add(library, &tenant, "file-one", "walrus and lion").await;
    add(library, &tenant, "file-none", "giraffe and lion").await;
    open(library, &tenant, "vs_ranked", &["file-one", "file-none", "file-both"]).await;
    let passages = search(library, &tenant, "vs_ranked", "penguin walrus").await;
    assert_eq!(found(&passages), ["file-both", "file-one"]);
    assert!(passages.is_sorted_by(|one, next| one.score >= next.score), "{passages:?}");
    let collections = [CollectionId::from("vs_ranked")];
    let one = library.search(&tenant, &collections, &Query::new("penguin walrus", 1)).await;
    assert_eq!(found(&one.expect("it is there")), ["file-both"]);
    let nothing = library.search(&tenant, &collections, &Query::new("?!", 5)).await;
    assert_eq!(nothing, Ok(Vec::new()));
}

async fn a_question_can_be_narrowed(library: &dyn Library) {
    let tenant = tenant("narrowed");
    let id = CollectionId::from("vs_narrowed");
    open(library, &tenant, "vs_narrowed", &[]).await;
    for (file, year) in [("file-old", 1999), ("file-new", 2024)] {
        add(library, &tenant, file, "walrus").await;
        let attached = attachment(file, json!({ "year": year }));
        library.attach(&tenant, &id, attached).await.expect("both are there");
    }
    let filter = Filter::Compare {
        key: "year".to_owned(),
        comparison: Comparison::Greater,
        value: json!(2000),
    };
    let query = Query { filter: Some(filter), ..Query::new("walrus", 1) };
    let passages = library.search(&tenant, &[id], &query).await.expect("it is there");
    assert_eq!(found(&passages), ["file-new"]);
}

async fn several_collections_are_searched_together(library: &dyn Library) {
    let tenant = tenant("several");
    add(library, &tenant, "file-north", "walrus of the north").await;
    add(library, &tenant, "file-south", "penguin, no walrus").await;
    open(library, &tenant, "vs_north", &["file-north"]).await;
    open(library, &tenant, "vs_south", &["file-south"]).await;
    let both = [CollectionId::from("vs_north"), CollectionId::from("vs_south")];
    let passages = library.search(&tenant, &both, &Query::new("walrus", 10)).await;
    let mut passages = passages.expect("both are there");
    passages.sort_by(|one, other| one.file_id.cmp(&other.file_id));
    assert_eq!(found(&passages), ["file-north", "file-south"]);
    let unknown = [CollectionId::from("vs_north"), CollectionId::from("vs_unknown")];
    is_not_found(library.search(&tenant, &unknown, &Query::new("walrus", 1)).await);
}

async fn what_is_no_text_cannot_be_searched(library: &dyn Library) {
    let tenant = tenant("refused");
    let id = CollectionId::from("vs_refused");
    open(library, &tenant, "vs_refused", &[]).await;
    let picture: Arc<[u8]> = b"\x89PNG\r\n\x1a\n\0\0".as_slice().into();
    library.add_file(&tenant, file("file-picture", 1), picture).await.expect("it can be kept");
    let refused = library.attach(&tenant, &id, attachment("file-picture", json!({}))).await;
    let Err(LibraryError::Refused(reason)) = refused else { panic!("not refused: {refused:?}") };
    assert!(reason.contains("file-picture.txt"), "it names the file: {reason}");
    assert_eq!(library.attachments(&tenant, &id).await, Ok(Vec::new()));
}

async fn what_is_not_there_is_not_found(library: &dyn Library) {
    let tenant = tenant("missing");
    let (file_id, id) = (FileId::from("file-missing"), CollectionId::from("vs_missing"));
    is_not_found(library.file(&tenant, &file_id).await);
    is_not_found(library.content(&tenant, &file_id).await);
    is_not_found(library.remove_file(&tenant, &file_id).await);
    is_not_found(library.collection(&tenant, &id).await);
    is_not_found(library.remove_collection(&tenant, &id).await);
    is_not_found(library.attachments(&tenant, &id).await);
    is_not_found(library.attach(&tenant, &id, attachment("file-missing", json!({}))).await);
    let unnamed = library.annotate_collection(&tenant, &id, String::new(), BTreeMap::new()).await;
    is_not_found(unnamed);
    open(library, &tenant, "vs_empty", &[]).await;
    let id = CollectionId::from("vs_empty");
    is_not_found(library.attach(&tenant, &id, attachment("file-missing", json!({}))).await);
    is_not_found(library.attachment(&tenant, &id, &file_id).await);
    assert_eq!(library.files(&tenant).await, Ok(Vec::new()));
}

async fn tenants_do_not_see_each_other(library: &dyn Library) {
    let (one, other) = (tenant("one"), tenant("other"));
    let (file_id, id) = (FileId::from("file-mine"), CollectionId::from("vs_mine"));
    add(library, &one, "file-mine", "walrus").await;
    open(library, &one, "vs_mine", &["file-mine"]).await;

    is_not_found(library.file(&other, &file_id).await);
    is_not_found(library.content(&other, &file_id).await);
    is_not_found(library.remove_file(&other, &file_id).await);
    is_not_found(library.collection(&other, &id).await);
    is_not_found(library.remove_collection(&other, &id).await);
    is_not_found(library.attachments(&other, &id).await);
    is_not_found(library.attachment(&other, &id, &file_id).await);
    is_not_found(library.detach(&other, &id, &file_id).await);
    is_not_found(library.search(&other, std::slice::from_ref(&id), &Query::new("walrus", 1)).await);
    assert_eq!(library.files(&other).await, Ok(Vec::new()));
    assert_eq!(library.collections(&other).await, Ok(Vec::new()));
    // Not even somebody else's file into a collection of one's own.
    open(library, &other, "vs_theirs", &[]).await;
    let theirs = CollectionId::from("vs_theirs");
    is_not_found(library.attach(&other, &theirs, attachment("file-mine", json!({}))).await);

    add(library, &other, "file-mine", "penguin").await;
    open(library, &other, "vs_mine", &["file-mine"]).await;
    assert_eq!(search(library, &one, "vs_mine", "penguin").await, []);
    assert_eq!(found(&search(library, &one, "vs_mine", "walrus").await), ["file-mine"]);
    library.remove_file(&other, &file_id).await.expect("it is theirs");
    library.file(&one, &file_id).await.expect("another tenant's id is another file");
    let attributes: Map<String, Value> = Map::new();
    let still = library.attachment(&one, &id, &file_id).await.expect("it is still attached");
    assert_eq!(still.attributes, attributes);
}
