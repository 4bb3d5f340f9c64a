//! Contract of [`Shares`].

use turnwire_contract::{MAX_SHARES, RunId, Share, Shares, StoreError, TenantId, Timestamp};

/// Runs the whole suite on `shares`, in whose store the tenant `shares` has the runs `run_s1` and
/// `run_s2`.
pub async fn check(shares: &dyn Shares) {
    let secret = shares.secret().await.expect("there is one");
    assert!(secret.len() >= 32, "too short");
    assert_eq!(shares.secret().await.expect("there is one"), secret);
    let (one, two) = (share("share_1", "run_s1", 1), share("share_2", "run_s1", 2));
    for new in [&one, &two, &share("share_3", "run_s2", 3)] {
        shares.share(new.clone()).await.expect("there is room");
    }
    let tenant = TenantId::from("shares");
    let of = async |run: &str| {
        shares.shares_of(&tenant, &RunId::from(run)).await.expect("they can be listed")
    };
    assert_eq!(of("run_s1").await, [one.clone(), two.clone()]);
    let found = shares.find_share("share_1").await.expect("it can be asked");
    assert_eq!(found, Some(one), "everything that is signed is stored");
    let revoke = async |tenant: &str, run: &str, id: &str| {
        let (tenant, run_id) = (TenantId::from(tenant), RunId::from(run));
        shares.revoke(&tenant, &run_id, id).await.expect("it can be asked")
    };
    assert!(!revoke("other", "run_s1", "share_1").await, "of another tenant");
    assert!(!revoke("shares", "run_s2", "share_1").await, "of another run");
    assert!(revoke("shares", "run_s1", "share_1").await);
    assert!(!revoke("shares", "run_s1", "share_1").await, "revoked already");
    assert_eq!(shares.find_share("share_1").await.expect("it can be asked"), None);
    assert_eq!(shares.find_share("share_\0").await.expect("it can be asked"), None);
    assert_eq!(of("run_s1").await, [two]);
    let others = shares.shares_of(&TenantId::from("other"), &RunId::from("run_s1")).await;
    assert_eq!(others.expect("they can be listed"), []);
    for n in 1..MAX_SHARES {
        let new = share(&format!("share_more{n}"), "run_s2", 4);
        shares.share(new).await.expect("there is room");
    }
    let refused = shares.share(share("share_one_more", "run_s2", 5)).await;
    assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
    // When they have expired, there is room again.
    let later =
        Share { expires_at: Timestamp::MAX, ..share("share_later", "run_s2", 1_000_000_000_000) };
    shares.share(later).await.expect("there is room");
}

/// A time far away, so that nothing expires by the clock of the store.
const FUTURE: i64 = 4_000_000_000_000_000;

fn share(id: &str, run: &str, at: i64) -> Share {
    Share {
        share_id: id.to_owned(),
        tenant: TenantId::from("shares"),
        run_id: RunId::from(run),
        created_at: Timestamp::from_micros(FUTURE + at),
        expires_at: Timestamp::from_micros(FUTURE + at + 1_000_000),
        redact: at % 2 == 0,
    }
}
