//! `turnwire doctor`: checks everything that the settings name.
//!
//! Reads the settings as `serve` does. `checks` has one check per part, all run concurrently, and
//! `report` prints the findings.

mod checks;
mod report;

use std::io::{self, IsTerminal};

use self::report::{Finding, Report};
use super::{output::print_line, watched::runtime};
use crate::{
    args::{DoctorArguments, ServeArguments},
    environment::Environment,
    exit::{Exit, Result},
    settings::ServeSettings,
    telemetry,
    terminal::Paint,
};

/// Runs the command. Findings are printed to standard output; the exit code says whether something
/// is broken.
pub(crate) fn doctor(arguments: &DoctorArguments, environment: &Environment) -> Exit {
    let paint = Paint::choose(arguments.color, environment, io::stdout().is_terminal());
    match examined(arguments, environment, paint) {
        Ok(report) => {
            print_line(&if arguments.json { report.as_json() } else { report.as_text(paint) });
            if report.is_well() { Exit::Done } else { Exit::Failed }
        }
        Err(problem) => problem.shown(paint),
    }
}

fn examined(
    arguments: &DoctorArguments,
    environment: &Environment,
    paint: Paint,
) -> Result<Report> {
    // Findings are in the report, so the log is enabled only on request.
    if environment.log_filter().is_some() {
        telemetry::start_to_stay(environment, paint)?;
    }
    let as_served = ServeArguments {
        config: arguments.config.clone(),
        model: arguments.model.clone(),
        demo: arguments.demo,
        ..ServeArguments::default()
    };
    let settings = match ServeSettings::read(&as_served, environment) {
        Ok(settings) => settings,
        // Without valid settings only the environment can be checked.
        Err(problem) => {
            let proxies = checks::proxies(environment);
            return Ok(Report(
                std::iter::once(Finding::of_settings(&problem)).chain(proxies).collect(),
            ));
        }
    };
    let runtime = runtime()?;
    let report = runtime.block_on(Box::pin(checks::everything(&settings, environment)));
    runtime.shutdown_background();
    Ok(report)
}
