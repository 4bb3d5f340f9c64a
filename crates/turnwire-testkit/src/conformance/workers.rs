//! Contract of [`Workers`].

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};
use turnwire_contract::{
    AbandonedRun, Item, NewRun, RunCommand, RunId, RunOutcome, RunRequest, RunStore, StoreError,
    TenantId, Timestamp, Workers,
};

/// Short, because these tests wait for it to expire, and longer than a busy machine pauses.
const LEASE: Duration = Duration::from_secs(1);

/// Long enough that a busy machine does not let it expire.
const LONG_LEASE: Duration = Duration::from_secs(4);

/// Runs the whole suite. `make` creates a number of workers on one new store, with a given lease.
pub async fn check<S: Workers + RunStore>(make: impl AsyncFn(usize, Duration) -> Vec<S>) {
    a_run_is_claimed_when_its_worker_is_gone(&make(2, LEASE).await).await;
    each_run_goes_to_one_claimer(&make(5, LONG_LEASE).await).await;
    a_released_run_is_claimed_at_once(&make(2, LEASE).await).await;
    deaths_are_counted(&make(3, LEASE).await).await;
    a_death_is_blamed_on_the_suspect(&make(6, LEASE).await).await;
    a_command_outlives_the_worker(&make(2, LEASE).await).await;
    a_command_wakes_the_worker(&make(1, LEASE).await).await;
    commands_are_for_active_runs_of_ones_own(&make(2, LEASE).await).await;
    a_late_worker_is_heard_again(&make(2, LEASE).await).await;
    after_an_outage_everybody_gets_time(&make(2, LEASE).await).await;
    a_finished_run_is_nobodys(&make(2, LEASE).await).await;
    a_worker_can_look_up_its_runs(&make(2, LONG_LEASE).await).await;
}

fn tenant() -> TenantId {
    TenantId::from("t")
}

async fn create(store: &impl RunStore, id: &str) -> RunId {
    let mut request = RunRequest::new("any", vec![Item::user("hi")]);
    request.tenant = tenant();
    let (run_id, created_at) = (RunId::from(id), Timestamp::from_micros(1));
    let run = NewRun::new(run_id.clone(), created_at, Arc::new(request));
    store.create(run).await.expect("it is new");
    run_id
}

async fn lease(worker: &impl Workers) -> Duration {
    worker.heartbeat().await.expect("it can be heard").length
}

/// Sends heartbeats of only these workers for `tenths` tenths of a lease.
async fn heartbeat_for<S: Workers>(workers: &[&S], tenths: u32) {
    let first = workers.first().expect("somebody beats");
    let length = lease(*first).await;
    let until = Instant::now() + length * tenths / 10;
    while Instant::now() < until {
        for worker in workers {
            worker.heartbeat().await.expect("it can be heard");
        }
        sleep(length / 10).await;
    }
}

fn abandoned(run_id: &RunId, n_deaths: u32) -> AbandonedRun {
    AbandonedRun {
        tenant: tenant(),
        run_id: run_id.clone(),
        n_deaths,
        n_blamed: 0,
        probation: None,
        n_failed_takeovers: 0,
        last_heard: None,
    }
}

/// Claims, and leaves out when the worker before was last heard of, and for how long the run is
/// suspected.
async fn claim(worker: &impl Workers) -> Vec<AbandonedRun> {
    let claimed = worker.claim(100).await.expect("it can claim");
    let known = |run| AbandonedRun { last_heard: None, probation: None, ..run };
    claimed.into_iter().map(known).collect()
}

/// Claims right after a heartbeat: on a busy machine the lease of the last one may be over.
async fn claim_alive(worker: &impl Workers) -> Vec<AbandonedRun> {
    worker.heartbeat().await.expect("it can be heard");
    claim(worker).await
}

async fn a_run_is_claimed_when_its_worker_is_gone<S: Workers + RunStore>(workers: &[S]) {
    let [one, other] = workers else { panic!("two were asked for") };
    let run_id = create(one, "run_lapse").await;
    heartbeat_for(&[one, other], 15).await;
    assert_eq!(claim(other).await, [], "its worker is there");
    assert_eq!(claim(one).await, [], "it is its own");
    assert_eq!(one.lost_runs(std::slice::from_ref(&run_id)).await.expect("it can be asked"), []);
    heartbeat_for(&[other], 15).await;
    other.heartbeat().await.expect("it can be heard");
    let claimed = other.claim(100).await.expect("it can claim");
    let last_heard = claimed.first().and_then(|run| run.last_heard);
    assert!(last_heard.is_some(), "its last heartbeat is known");
    let expected = AbandonedRun { last_heard, ..abandoned(&run_id, 1) };
    assert_eq!(claimed, [expected], "C17: its worker is gone");
    assert_eq!(claim(other).await, [], "it was claimed before");
    let asked = [run_id.clone(), RunId::from("run_unknown")];
    assert_eq!(one.lost_runs(&asked).await.expect("it can be asked"), asked, "C16");
    let unknown = RunId::from("run_unknown");
    assert_eq!(other.lost_runs(&asked).await.expect("it can be asked"), [unknown]);
    one.release(&run_id).await.expect("it is ignored");
    let lost = other.lost_runs(&[run_id]).await.expect("it can be asked");
    assert_eq!(lost, [], "only its worker can release it");
}

async fn each_run_goes_to_one_claimer<S: Workers + RunStore>(workers: &[S]) {
    let (dead, living) = workers.split_first().expect("five were asked for");
    dead.heartbeat().await.expect("it can be heard");
    let ids: Vec<String> = (0..200).map(|n| format!("run_shared_{n}")).collect();
    join_all(ids.iter().map(|id| create(dead, id))).await;
    heartbeat_for(&living.iter().collect::<Vec<_>>(), 15).await;
    let claims = (0..16).flat_map(|_| living).map(|worker| worker.claim(7));
    let mut claimed = Vec::new();
    for batch in join_all(claims).await {
        let batch = batch.expect("it can claim");
        assert!(batch.len() <= 7, "more than it asked for");
        claimed.extend(batch);
    }
    // Runs locked by another claim are skipped.
    for worker in living {
        claimed.extend(worker.claim(usize::MAX).await.expect("it can claim"));
    }
    assert_eq!(claimed.len(), ids.len(), "C16: each goes to one");
    let claimed: BTreeSet<&str> = claimed.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!(claimed, ids.iter().map(String::as_str).collect());
}

async fn a_released_run_is_claimed_at_once<S: Workers + RunStore>(workers: &[S]) {
    let [one, other] = workers else { panic!("two were asked for") };
    one.heartbeat().await.expect("it can be heard");
    let run_id = create(one, "run_released").await;
    assert_eq!(claim(other).await, [], "who was never heard claims nothing");
    other.heartbeat().await.expect("it can be heard");
    one.release(&run_id).await.expect("it is its own");
    let claimed = other.claim(100).await.expect("it can claim");
    assert_eq!(claimed, [abandoned(&run_id, 0)], "C20: nobody died");
}

async fn deaths_are_counted<S: Workers + RunStore>(workers: &[S]) {
    let [one, second, third] = workers else { panic!("three were asked for") };
    one.heartbeat().await.expect("it can be heard");
    let run_id = create(one, "run_deaths").await;
    heartbeat_for(&[second], 15).await;
    assert_eq!(claim_alive(second).await, [abandoned(&run_id, 1)], "C22");
    heartbeat_for(&[third], 15).await;
    assert_eq!(claim_alive(third).await, [abandoned(&run_id, 2)], "C22");
    second.heartbeat().await.expect("it can be heard");
    third.release(&run_id).await.expect("it is its own");
    assert_eq!(claim(second).await, [abandoned(&run_id, 2)], "C22: a release is no death");
}

/// Claims what can be claimed until it is this run, or for half a minute.
async fn claim_until(worker: &impl Workers, run_id: &RunId) -> Vec<AbandonedRun> {
    let mut claimed = Vec::new();
    let until = Instant::now() + Duration::from_secs(30);
    while !claimed.iter().any(|run: &AbandonedRun| run.run_id == *run_id) {
        assert!(Instant::now() < until, "{run_id} cannot be claimed, only {claimed:?}");
        worker.heartbeat().await.expect("it can be heard");
        claimed.extend(worker.claim(100).await.expect("it can claim"));
        sleep(LEASE / 10).await;
    }
    claimed
}

/// C22, C36: two workers die with both of two runs. From then on each is taken over alone, and only
/// the one that was alone when its worker died is to blame.
async fn a_death_is_blamed_on_the_suspect<S: Workers + RunStore>(workers: &[S]) {
    let [one, second, third, fourth, fifth, sixth] = workers else { panic!("six were asked for") };
    one.heartbeat().await.expect("it can be heard");
    let (poison, beside) = (create(one, "run_a_poison").await, create(one, "run_beside").await);
    heartbeat_for(&[second], 15).await;
    second.heartbeat().await.expect("it can be heard");
    let claimed = second.claim(100).await.expect("it can claim");
    assert_eq!(claimed.len(), 2, "one death may be chance: {claimed:?}");
    assert!(claimed.iter().all(|run| run.n_blamed == 0 && run.probation.is_none()), "{claimed:?}");
    heartbeat_for(&[third], 15).await;
    third.heartbeat().await.expect("it can be heard");
    let claimed = third.claim(100).await.expect("it can claim");
    let [suspect] = claimed.as_slice() else { panic!("one suspect at a time: {claimed:?}") };
    assert_eq!((&suspect.run_id, suspect.n_deaths, suspect.n_blamed), (&poison, 2, 0));
    assert!(suspect.probation.is_some(), "{suspect:?}");
    assert_eq!(claim_alive(third).await, [], "it has a suspect already");

    // It dies with the poison. The other run was not there.
    heartbeat_for(&[fourth], 15).await;
    let claimed = claim_until(fourth, &beside).await;
    let [suspect] = claimed.as_slice() else { panic!("the other one waits: {claimed:?}") };
    assert_eq!((suspect.n_deaths, suspect.n_blamed), (2, 0));
    assert_eq!(claim_alive(fourth).await, [], "it has a suspect already");
    fourth.end_probation(&beside).await.expect("it can be said");
    let claimed = claim_until(fourth, &poison).await;
    let [suspect] = claimed.as_slice() else { panic!("the other one is here: {claimed:?}") };
    assert_eq!((suspect.n_deaths, suspect.n_blamed), (3, 1), "it was alone");

    // It dies with both. It is known which one did it.
    heartbeat_for(&[fifth], 15).await;
    let claimed = claim_until(fifth, &poison).await;
    let found = claimed.iter().find(|run| run.run_id == beside).expect("nothing speaks against it");
    assert_eq!((found.n_deaths, found.n_blamed, found.probation), (3, 0, None));
    let found = claimed.iter().find(|run| run.run_id == poison).expect("it was waited for");
    assert_eq!((found.n_deaths, found.n_blamed), (4, 2));
    assert!(found.probation.is_some(), "{found:?}");

    // Released, it is a suspect all the same.
    fifth.release(&poison).await.expect("it is its own");
    let claimed = claim_until(sixth, &poison).await;
    let found = claimed.iter().find(|run| run.run_id == poison).expect("it was waited for");
    assert_eq!((found.n_deaths, found.n_blamed), (4, 2), "C22: a release is no death");
    assert!(found.probation.is_some(), "{found:?}");
    for (worker, run_id) in [(fifth, &beside), (sixth, &poison)] {
        worker.finish(run_id, RunOutcome::Completed, Vec::new()).await.expect("it is active");
    }
}

async fn a_command_outlives_the_worker<S: Workers + RunStore>(workers: &[S]) {
    let [one, other] = workers else { panic!("two were asked for") };
    one.heartbeat().await.expect("it can be heard");
    let run_id = create(one, "run_wish").await;
    let said = [RunCommand::CancelCall { call_id: "call_1".into() }, RunCommand::Cancel];
    for command in &said {
        other.enqueue(&tenant(), &run_id, command.clone()).await.expect("it is active");
    }
    let pending_commands = one.pending_commands().await.expect("it can be asked");
    assert_eq!(
        pending_commands.iter().map(|left| &left.command).collect::<Vec<_>>(),
        said.each_ref()
    );
    assert!(pending_commands.iter().all(|left| left.run_id == run_id), "{pending_commands:?}");
    assert_eq!(
        one.pending_commands().await.expect("it can be asked"),
        pending_commands,
        "C15: not done with"
    );
    assert_eq!(other.pending_commands().await.expect("it can be asked"), [], "not its run");
    assert_eq!(
        other.pending_commands_for(&run_id).await.expect("it can be asked"),
        pending_commands
    );
    let unknown = RunId::from("run_unknown");
    assert_eq!(other.pending_commands_for(&unknown).await.expect("it can be asked"), []);
    heartbeat_for(&[other], 15).await;
    assert_eq!(claim(other).await, [abandoned(&run_id, 1)]);
    assert_eq!(one.pending_commands().await.expect("it can be asked"), [], "no longer its run");
    assert_eq!(
        other.pending_commands().await.expect("it can be asked"),
        pending_commands,
        "C15: after a takeover"
    );
    let [first, last] = pending_commands.as_slice() else { panic!("{pending_commands:?}") };
    other.acknowledge(&[first.id]).await.expect("it is there");
    let left = other.pending_commands().await.expect("it can be asked");
    assert_eq!(left, std::slice::from_ref(last));
    other.acknowledge(&[first.id, last.id]).await.expect("once more is fine");
    assert_eq!(other.pending_commands().await.expect("it can be asked"), []);
}

async fn a_command_wakes_the_worker<S: Workers + RunStore>(workers: &[S]) {
    let [one] = workers else { panic!("one was asked for") };
    let run_id = create(one, "run_woken").await;
    let woken = timeout(Duration::from_secs(10), one.woken());
    let tenant = tenant();
    let (left, woken) = tokio::join!(one.enqueue(&tenant, &run_id, RunCommand::Cancel), woken);
    left.expect("it is active");
    woken.expect("C14: it is told");
}

async fn commands_are_for_active_runs_of_ones_own<S: Workers + RunStore>(workers: &[S]) {
    let [one, other] = workers else { panic!("two were asked for") };
    one.heartbeat().await.expect("it can be heard");
    let run_id = create(one, "run_own").await;
    let stranger = TenantId::from("stranger");
    let theirs = other.enqueue(&stranger, &run_id, RunCommand::Cancel).await;
    assert!(matches!(theirs, Err(StoreError::NotFound(_))), "A1: {theirs:?}");
    let unknown = other.enqueue(&tenant(), &RunId::from("run_unknown"), RunCommand::Cancel).await;
    assert!(matches!(unknown, Err(StoreError::NotFound(_))), "{unknown:?}");
    assert_eq!(one.pending_commands().await.expect("it can be asked"), []);
    other.enqueue(&tenant(), &run_id, RunCommand::Cancel).await.expect("it is active");
    one.finish(&run_id, RunOutcome::Completed, Vec::new()).await.expect("it is active");
    assert_eq!(one.pending_commands().await.expect("it can be asked"), [], "it is over");
    let late = other.enqueue(&tenant(), &run_id, RunCommand::Cancel).await;
    assert!(matches!(late, Err(StoreError::NotFound(_))), "{late:?}");
}

async fn a_late_worker_is_heard_again<S: Workers + RunStore>(workers: &[S]) {
    let [one, other] = workers else { panic!("two were asked for") };
    one.heartbeat().await.expect("it can be heard");
    let run_id = create(one, "run_late").await;
    heartbeat_for(&[other], 15).await;
    one.heartbeat().await.expect("it is heard again");
    assert_eq!(claim(other).await, [], "it has come back in time");
    assert_eq!(one.lost_runs(&[run_id]).await.expect("it can be asked"), []);
}

async fn after_an_outage_everybody_gets_time<S: Workers + RunStore>(workers: &[S]) {
    let [one, other] = workers else { panic!("two were asked for") };
    let length = lease(one).await;
    let run_id = create(one, "run_outage").await;
    heartbeat_for(&[one, other], 15).await;
    // No heartbeats, as during an outage of the database.
    sleep(length * 2).await;
    other.heartbeat().await.expect("it can be heard");
    assert_eq!(claim(other).await, [], "C18: the other had no chance to be heard yet");
    heartbeat_for(&[other], 15).await;
    assert_eq!(claim(other).await, [abandoned(&run_id, 1)], "C17: it had, and was not");
}

async fn a_worker_can_look_up_its_runs<S: Workers + RunStore>(workers: &[S]) {
    let [one, other] = workers else { panic!("two were asked for") };
    for worker in workers {
        worker.heartbeat().await.expect("it can be heard");
    }
    let (kept, passed_on) = (create(one, "run_kept").await, create(one, "run_passed_on").await);
    let over = create(one, "run_over").await;
    one.finish(&over, RunOutcome::Completed, Vec::new()).await.expect("it is active");
    one.release(&passed_on).await.expect("it is its own");
    assert_eq!(one.owned_runs().await.expect("it can be asked"), [kept]);
    assert_eq!(other.owned_runs().await.expect("it can be asked"), []);
    assert_eq!(claim(other).await, [abandoned(&passed_on, 0)]);
    assert_eq!(other.owned_runs().await.expect("it can be asked"), [passed_on]);
}

async fn a_finished_run_is_nobodys<S: Workers + RunStore>(workers: &[S]) {
    let [one, other] = workers else { panic!("two were asked for") };
    one.heartbeat().await.expect("it can be heard");
    let run_id = create(one, "run_over").await;
    one.finish(&run_id, RunOutcome::Completed, Vec::new()).await.expect("it is active");
    assert_eq!(
        one.lost_runs(std::slice::from_ref(&run_id)).await.expect("it can be asked"),
        [run_id]
    );
    heartbeat_for(&[other], 15).await;
    assert_eq!(claim(other).await, []);
}
