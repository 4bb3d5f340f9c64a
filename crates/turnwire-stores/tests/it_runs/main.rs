//! Runs, big results, workers and what is forgotten, on both databases.

mod audit;
mod broken_runs;
mod catalogues;
mod compaction;
mod encryption;
mod forgetting;
mod input_lists;
mod leaving;
mod promises;
mod prompt_files;
mod races;
mod run_listing;
mod secrets;
mod support;
mod takeovers;
mod usage;
mod version_before;
mod webhooks;
