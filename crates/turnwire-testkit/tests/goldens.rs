//! S4-19, S4-X: one journal per scenario, and every surface a projection of it.
//!
//! `UPDATE_GOLDENS=1 cargo test -p turnwire-testkit --test goldens` writes the files anew.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use turnwire_contract::Recorded;
use turnwire_testkit::{golden, invariants, scenarios, surfaces};

/// S4-19, T3: what is played is what is written down, and what each surface shows of it too.
/// The journal's format is a promise: read back from its file, it is and shows the same.
#[tokio::test(start_paused = true)]
async fn every_scenario_shows_what_is_written_down_on_every_surface() {
    for scenario in scenarios::all() {
        let (name, folder) = (scenario.name, scenario.folder());
        let journal = scenario.play().await;
        for (file, write_down) in surfaces::ALL {
            golden::check(&folder.join(file), &write_down(&journal));
        }
        let text = fs::read_to_string(folder.join("events.jsonl")).unwrap();
        let read: Vec<Arc<Recorded>> =
            text.lines().map(|line| Arc::new(serde_json::from_str(line).unwrap())).collect();
        assert_eq!(read, journal, "{name}");
        let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
}

/// At least the sixteen kinds of run, and no folder without a scenario.
#[tokio::test(start_paused = true)]
async fn every_folder_has_its_scenario() {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")).unwrap();
    let found: BTreeSet<String> =
        folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect();
    let expected: BTreeSet<String> =
        scenarios::all().iter().map(|scenario| scenario.name.to_owned()).collect();
    assert_eq!(found, expected);
    assert!(found.len() >= 16, "only {} scenarios", found.len());
}
