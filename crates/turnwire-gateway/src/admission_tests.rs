//! Tests of the concurrency limits.

use turnwire_contract::{RunId, Timestamp};

use super::*;

fn limits() -> AdmissionLimits {
    AdmissionLimits {
        runs: 5,
        runs_per_tenant: 4,
        runs_per_key: 2,
        connections_per_key: 3,
        results_per_tenant: 2,
        readers_per_link: 2,
        readers_per_tenant: 4,
        readers_per_address: 3,
    }
}

fn setting<T>(admitted: Result<T, ApiError>) -> &'static str {
    let error = admitted.err().expect("it is full");
    assert_eq!(error.status, StatusCode::TOO_MANY_REQUESTS);
    error.limit().expect("it is a limit")
}

/// A13: runs are counted per process, per tenant and per key. A run at the limit is admitted; the
/// next one is refused until another ends.
#[test]
fn runs_at_once_are_bounded() {
    let admission = Admission::new(limits());
    let (one, other) = (TenantId::from("one"), TenantId::from("other"));
    let [a, b, c] = ["a", "b", "c"].map(|key| Some(KeyDigest::of(key)));
    let admit = |tenant, key| admission.admit_run(tenant, key, 0);
    let of_a = [admit(&one, a).unwrap(), admit(&one, a).unwrap()];
    assert_eq!(setting(admit(&one, a)), "limits.max_runs_per_key");
    let of_b = [admit(&one, b).unwrap(), admit(&one, b).unwrap()];
    assert_eq!(setting(admit(&one, c)), "limits.max_runs_per_tenant");
    let of_other = admit(&other, c).unwrap();
    assert_eq!(setting(admit(&other, c)), "limits.max_runs");
    drop(of_a);
    let again = admit(&one, a).unwrap();
    drop((of_b, of_other, again));
    assert!(lock(&admission.counts).is_empty(), "nothing is remembered of whoever is gone");
}

/// A13: runs that this process took over count as well.
#[test]
fn runs_that_were_taken_over_count() {
    let admission = Admission::new(limits());
    assert!(admission.admit_run(&TenantId::default(), None, 4).is_ok());
    assert_eq!(setting(admission.admit_run(&TenantId::default(), None, 5)), "limits.max_runs");
}

/// A13: a refused run does not change any count.
#[test]
fn who_is_refused_takes_nothing() {
    let admission = Admission::new(AdmissionLimits { runs_per_key: 1, ..limits() });
    let (tenant, key) = (TenantId::default(), Some(KeyDigest::of("a")));
    let _first = admission.admit_run(&tenant, key, 0).unwrap();
    for _ in 0..10 {
        assert_eq!(setting(admission.admit_run(&tenant, key, 0)), "limits.max_runs_per_key");
    }
    let others: Vec<Permit> =
        (0..3).map(|_| admission.admit_run(&tenant, None, 0).unwrap()).collect();
    assert_eq!(others.len(), 3);
}

/// A13: connections are counted per key; without keys there is no limit.
#[test]
fn connections_of_a_key_are_bounded() {
    let admission = Admission::new(limits());
    let (a, b) = (Some(KeyDigest::of("a")), Some(KeyDigest::of("b")));
    let open: Vec<Permit> = (0..3).map(|_| admission.admit_connection(a).unwrap()).collect();
    assert_eq!(setting(admission.admit_connection(a)), "limits.max_connections_per_key");
    assert!(admission.admit_connection(b).is_ok());
    let nobody: Vec<Permit> = (0..9).map(|_| admission.admit_connection(None).unwrap()).collect();
    drop((open, nobody));
    assert!(admission.admit_connection(a).is_ok());
}

/// A12: a digest does not reveal the key, and equal keys have equal digests.
#[test]
fn a_key_is_counted_by_its_digest() {
    assert_eq!(KeyDigest::of("tw_secret"), KeyDigest::of("tw_secret"));
    assert_ne!(KeyDigest::of("tw_secret"), KeyDigest::of("tw_secret2"));
    let shown = format!("{:?}", KeyDigest::of("tw_secret"));
    assert!(!shown.contains("secret") && shown.len() < 24, "{shown}");
}

/// A13: a run that starts just as another ends gets its permit; without a free permit it is refused
/// after a short wait.
#[tokio::test(start_paused = true)]
async fn the_place_of_a_run_that_ends_is_waited_for() {
    let admission = Admission::new(AdmissionLimits { runs_per_key: 1, ..limits() });
    let (tenant, key) = (TenantId::default(), Some(KeyDigest::of("a")));
    let first = admission.admit_run(&tenant, key, 0).unwrap();
    let refused = admission.admit_run_soon(&tenant, key, || 0).await;
    assert_eq!(setting(refused), "limits.max_runs_per_key");
    let ending = async {
        tokio::time::sleep(ENDING_TIME / 2).await;
        drop(first);
    };
    let (admitted, ()) = tokio::join!(admission.admit_run_soon(&tenant, key, || 0), ending);
    assert!(admitted.is_ok());
}

/// A21: readers of share links are counted by link, tenant and address. A reader at the limit is
/// admitted; the next one is refused until another leaves.
#[test]
fn readers_of_links_are_bounded() {
    let admission = Admission::new(limits());
    let share = |link: &str, tenant: &str| Share {
        share_id: link.to_owned(),
        tenant: TenantId::from(tenant),
        run_id: RunId::new("run"),
        created_at: Timestamp::from_micros(0),
        expires_at: Timestamp::from_micros(0),
        redact: false,
    };
    let mut n_addresses = 0;
    let mut address = || {
        n_addresses += 1;
        Some(IpAddr::from([10, 0, 0, n_addresses]))
    };
    let admit = |link: &Share, address| admission.admit_reader(link, address);
    let (a, b, c, other) =
        (share("a", "one"), share("b", "one"), share("c", "one"), share("d", "other"));
    let of_a = [admit(&a, address()).unwrap(), admit(&a, address()).unwrap()];
    assert_eq!(setting(admit(&a, address())), "limits.max_readers_per_link");
    let of_b = [admit(&b, address()).unwrap(), admit(&b, address()).unwrap()];
    assert_eq!(setting(admit(&c, address())), "limits.max_readers_per_tenant");
    let of_other = admit(&other, address()).unwrap();
    drop((of_a, of_b, of_other));
    let here = address();
    let of_address =
        [admit(&a, here).unwrap(), admit(&b, here).unwrap(), admit(&other, here).unwrap()];
    let refused = admit(&c, here).unwrap_err();
    assert_eq!((refused.code, refused.status), ("too_many_readers", StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(setting(Err::<(), _>(refused)), "limits.max_readers_per_address");
    let elsewhere = admit(&c, address()).unwrap();
    drop((of_address, elsewhere));
    assert!(lock(&admission.counts).is_empty(), "nothing is remembered of whoever is gone");
}

/// A13, A21: callers of a tenant have so many full results, and of 64 readers of its links one has
/// one; another waits for it to be read, and is refused if that takes long. Other tenants have their
/// own.
#[tokio::test(start_paused = true)]
async fn full_results_are_bounded() {
    for (reader, limit) in [
        (ResultReader::Caller, "limits.max_results_per_tenant"),
        (ResultReader::OfLink, "limits.max_readers_per_tenant"),
    ] {
        let admission = Admission::new(AdmissionLimits { readers_per_tenant: 100, ..limits() });
        let (one, other) = (TenantId::from("one"), TenantId::from("other"));
        let admit = |tenant| admission.admit_result(tenant, reader);
        let (first, second) = (admit(&one).await.unwrap(), admit(&one).await.unwrap());
        let refused = admit(&one).await.unwrap_err();
        assert_eq!(refused.code, "too_many_results");
        assert_eq!(setting(Err::<(), _>(refused)), limit);
        assert!(admit(&other).await.is_ok());
        let reading = async {
            tokio::time::sleep(RESULT_TIMEOUT / 2).await;
            drop(first);
        };
        let (third, ()) = tokio::join!(admit(&one), reading);
        drop((second, third.unwrap()));
        assert!(lock(&admission.counts).is_empty());
    }
}
