//! `turnwire doctor`: what works, what does not, what to do.
//!
//! It reads the settings as `serve` does and tries everything they name, all at once: each part
//! of `checks` looks at one thing and says what it found, and `report` words it.

mod checks;
mod report;

use std::io::{self, IsTerminal, Write};

use crate::{
    args::{DoctorArguments, ServeArguments},
    environment::Environment,
    exit::{Exit, Problem},
    settings::ServeSettings,
    telemetry,
    terminal::Paint,
};

use self::report::{Finding, Report};

/// Runs the command. Whatever is found is told on standard output; the exit code says whether
/// something is broken.
pub(crate) fn doctor(arguments: &DoctorArguments, environment: &Environment) -> Exit {
    let paint = Paint::choose(arguments.color, environment, io::stdout().is_terminal());
    match examined(arguments, environment, paint) {
        Ok(report) => {
            let text = if arguments.json { report.as_json() } else { report.as_text(paint) };
            // If nobody reads it, nobody misses it.
            let _ = writeln!(io::stdout().lock(), "{text}");
            if report.is_well() { Exit::Done } else { Exit::Failed }
        }
        Err(problem) => {
            problem.show(paint);
            problem.exit
        }
    }
}

fn examined(
    arguments: &DoctorArguments,
    environment: &Environment,
    paint: Paint,
) -> Result<Report, Problem> {
    // What goes wrong is told in the report; the log only if somebody asks for it.
    if telemetry::is_wanted(environment) {
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
        // Nothing else can be tried, but the surroundings can be looked at.
        Err(problem) => {
            let proxies = checks::proxies(environment);
            return Ok(Report(
                std::iter::once(Finding::of_settings(&problem)).chain(proxies).collect(),
            ));
        }
    };
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Problem::failure(format!("there are no threads to work with: {error}")))?;
    let report = runtime.block_on(Box::pin(checks::everything(&settings, environment)));
    runtime.shutdown_background();
    Ok(report)
}
