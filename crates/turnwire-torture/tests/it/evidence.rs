//! What is read from the tables is what was written into them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use sqlx::{Executor, PgPool};
use turnwire_contract::RunId;
use turnwire_testkit::services::postgres_url;
use turnwire_torture::{
    checker::{Kind, RunFacts, check_run},
    evidence::look_up,
};

const TABLES: &str = include_str!("../../../turnwire-stores/migrations/postgres/0001_runs.sql");

/// A finished run of three events, in the tables of the product.
const RUN: &str = r#"
insert into runs (id, tenant, created_at, request, state, outcome)
    values ('run_1', 'default', 0, '{}', 'finished', '{"status":"completed"}');
insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, body) values
    ('default', 'run_1', 1, 1, 7, 'event',
     '[[1000000,{"type":"run_queued","request":{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"text","text":"Hi"}]}],"parallel_tool_calls":true}}]]'),
    ('default', 'run_1', 2, 2, 7, 'event', '[[1000001,{"type":"run_started"}]]'),
    ('default', 'run_1', 3, 3, 8, 'over',
     '[[1000002,{"type":"run_finished","outcome":{"status":"completed"},"usage":{}}]]');
insert into entries (tenant, run_id, id, entry) values
    ('default', 'run_1', 'msg_1_0',
     '{"id":"msg_1_0","item":{"type":"message","role":"user","content":[{"type":"text","text":"Hi"}]}}');
"#;

async fn kinds(pool: &PgPool) -> Vec<Kind> {
    let (run_id, mut facts) = (RunId::new("run_1"), RunFacts::default());
    look_up(pool, &run_id, &mut facts).await.unwrap();
    check_run(&run_id, &facts, &[]).into_iter().map(|violation| violation.kind).collect()
}

/// C2, C3, C7: each change to a table is found.
#[tokio::test]
async fn what_is_wrong_in_the_tables_is_found() {
    let pool = PgPool::connect(&postgres_url()).await.unwrap();
    pool.execute(sqlx::raw_sql(TABLES)).await.unwrap();
    pool.execute(sqlx::raw_sql(RUN)).await.unwrap();
    assert_eq!(kinds(&pool).await, []);
    for (change, back, kind) in [
        (
            "update run_events set first_seq = 4, last_seq = 4 where first_seq = 3",
            "update run_events set first_seq = 3, last_seq = 3 where first_seq = 4",
            Kind::JournalGap,
        ),
        (
            "update runs set state = 'active'",
            "update runs set state = 'finished'",
            Kind::StatusDiffers,
        ),
        (
            "update entries set entry = replace(entry, 'msg_1_0', 'msg_other')",
            "update entries set entry = replace(entry, 'msg_other', 'msg_1_0')",
            Kind::HistoryTorn,
        ),
        (
            "update run_events set last_seq = 2 where first_seq = 1",
            "update run_events set last_seq = 1 where first_seq = 1",
            Kind::JournalUnreadable,
        ),
    ] {
        pool.execute(sqlx::raw_sql(change)).await.unwrap();
        assert_eq!(kinds(&pool).await[0], kind, "{change}");
        pool.execute(sqlx::raw_sql(back)).await.unwrap();
    }
    assert_eq!(kinds(&pool).await, []);
}
