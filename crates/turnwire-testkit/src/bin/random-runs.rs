//! Random runs as the surfaces show them, for the parsers of other people's clients.
//!
//! `random-runs COUNT FOLDER [SEED]` makes a folder for each run, with the files that a recorded
//! scenario has. The same seed makes the same runs.

use std::{env, fs, io, path::PathBuf};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use turnwire_testkit::{scripts::any_run, surfaces};

const USAGE: &str = "usage: random-runs COUNT FOLDER [SEED]";

fn main() -> io::Result<()> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (count, folder, seed) = match arguments.as_slice() {
        [count, folder] => (count, folder, "0"),
        [count, folder, seed] => (count, folder, seed.as_str()),
        _ => return Err(wrong(USAGE)),
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong(USAGE));
    let (count, seed, folder) = (number(count)?, number(seed)?, PathBuf::from(folder));
    let mut runner = TestRunner::new_with_rng(Config::default(), random_numbers(seed));
    for n in 0..count {
        let run = any_run().new_tree(&mut runner).map_err(|error| wrong(error.message()))?;
        let journal = run.current().play()?;
        let folder = folder.join(format!("random-{n:05}"));
        fs::create_dir_all(&folder)?;
        for (file, write_down) in surfaces::ALL {
            fs::write(folder.join(file), write_down(&journal))?;
        }
    }
    Ok(())
}

fn random_numbers(seed: u64) -> TestRng {
    let seed: Vec<u8> = seed.to_le_bytes().repeat(4);
    TestRng::from_seed(RngAlgorithm::ChaCha, &seed)
}
