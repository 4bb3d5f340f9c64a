//! What servers with different keys do to each other.

use super::*;
use crate::database::SqliteDatabase;

const OLD: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NEW: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";

async fn database() -> Arc<dyn Database> {
    Arc::new(SqliteDatabase::in_memory().await.unwrap())
}

fn with_keys(database: &Arc<dyn Database>, keys: &str) -> Sealing {
    Sealing::new(Arc::clone(database), Some(SecretKeys::read(keys).unwrap()))
}

/// A17: a server whose key of a tenant was encrypted with a key that it does not have yet goes on
/// with the one in its memory: no run at work is given up.
#[tokio::test]
async fn a_key_in_memory_outlives_a_hasty_rewrap() {
    let (database, tenant) = (database().await, TenantId::from("t"));
    let early = with_keys(&database, OLD);
    let id = early.current(&tenant).await.unwrap().unwrap().id().to_owned();
    assert_eq!(with_keys(&database, &format!("{NEW},{OLD}")).rewrap().await.unwrap(), 1);
    early.read(&tenant).await.unwrap();
    assert_eq!(early.current(&tenant).await.unwrap().unwrap().id(), id);
    let restarted = with_keys(&database, OLD).current(&tenant).await;
    assert!(matches!(restarted, Err(DatabaseError::KeyMissing(_))), "{restarted:?}");
}

/// A17: whoever has a wrong key makes no keys, neither for a new tenant nor by rotation.
#[tokio::test]
async fn a_wrong_key_makes_no_keys() {
    let (database, tenant) = (database().await, TenantId::from("t"));
    with_keys(&database, OLD).current(&tenant).await.unwrap();
    let wrong = with_keys(&database, NEW);
    let rotated = wrong.rotate(None).await;
    assert!(matches!(rotated, Err(DatabaseError::KeyMissing(_))), "{rotated:?}");
    let created = wrong.current(&TenantId::from("new")).await;
    assert!(matches!(created, Err(DatabaseError::KeyMissing(_))), "{created:?}");
    let keys = database.query("select id from tenant_keys", &[]).await.unwrap();
    assert_eq!(keys.len(), 1);
}

/// A17: a key that another server has just made is found at once, also right after a look at the
/// table.
#[tokio::test]
async fn a_new_key_is_found_at_once() {
    let (database, tenant) = (database().await, TenantId::from("t"));
    let (one, other) = (with_keys(&database, OLD), with_keys(&database, OLD));
    one.current(&tenant).await.unwrap();
    other.current(&tenant).await.unwrap();
    assert_eq!(one.rotate(Some(&tenant)).await.unwrap(), 1);
    let run_id = turnwire_contract::RunId::from("run_1");
    let place = Place::command(&run_id);
    let mut text = "text".to_owned();
    one.current(&tenant).await.unwrap().unwrap().seal(place, &mut text).unwrap();
    assert_eq!(other.open(&tenant, place, &text).await.unwrap(), "text");
}
