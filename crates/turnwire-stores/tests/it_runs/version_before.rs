//! What the version before asks of the database, in its own words, while this one is at work.

use turnwire_contract::{Commands, Leases, RunCommand, RunId, RunOutcome, RunRecords};

use crate::support::{Backend, run, tenant};

/// Commands pass between two versions, whichever of them has the run.
#[tokio::test]
async fn commands_pass_between_two_versions() {
    for backend in Backend::both() {
        let store = backend.store().await;
        store.heartbeat().await.unwrap();
        for id in ["run_1", "run_2"] {
            store.create(run(id, |_| {})).await.unwrap();
        }
        let run_id = RunId::from("run_1");
        let cancel = serde_json::to_string(&RunCommand::Cancel).unwrap();

        // The version before leaves a command; this one finds it and acknowledges it.
        let enqueue = format!(
            "insert into wishes (tenant, run_id, wish) select tenant, id, '{cancel}' from runs
             where tenant = 't' and id = 'run_1' and state = 'active' returning tenant"
        );
        assert_eq!(backend.ask(&enqueue).await, ["t"], "{}", backend.url);
        let pending = store.pending_commands().await.unwrap();
        assert_eq!(pending.len(), 1, "{pending:?}");
        assert_eq!((&pending[0].run_id, &pending[0].command), (&run_id, &RunCommand::Cancel));
        store.acknowledge(&[pending[0].id]).await.unwrap();
        let listed = "select wish from wishes w where run_id = 'run_1' order by w.id";
        assert_eq!(backend.ask(listed).await, [""; 0]);

        // This version leaves commands; the one before finds and acknowledges them.
        for id in ["run_1", "run_2"] {
            store.enqueue(&tenant(), &id.into(), RunCommand::Cancel).await.unwrap();
        }
        assert_eq!(backend.ask(listed).await, [cancel.as_str()]);
        backend.ask("delete from wishes where id in (select min(id) from wishes)").await;
        assert_eq!(store.pending_commands_for(&run_id).await.unwrap(), []);

        // The end of a run removes what is left, in the words of both.
        if backend.is_postgres() {
            let end = "with ended as (select tenant, id from runs where id = 'run_2'),
                            gone as (delete from wishes using ended
                                     where wishes.tenant = ended.tenant
                                     and wishes.run_id = ended.id returning wishes.run_id)
                       select run_id from gone";
            assert_eq!(backend.ask(end).await, ["run_2"]);
        } else {
            backend.ask("delete from wishes where tenant = 't' and run_id = 'run_2'").await;
        }
        assert_eq!(store.pending_commands().await.unwrap(), []);
        store.finish(&run_id, RunOutcome::Completed, Vec::new()).await.unwrap();
    }
}
