//! Schemas of tools and forms, which strangers write, and arguments that are checked against them.
//!
//! A schema is looked at before it is compiled (`budget`), compiled once, and kept. Arguments are
//! checked at once with a small budget (`metered`). What needs more is done in one of a few places
//! beside the runtime, with a larger budget and a deadline.

mod budget;
mod metered;

use std::{
    collections::{HashMap, VecDeque},
    num::NonZeroUsize,
    sync::{Arc, LazyLock, Mutex},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};
use tracing::{error, warn};
use turnwire_contract::{LeftOut, Tool, WhyLeftOut};

pub use self::budget::{SchemaTooComplex, check_schema};
use self::{
    budget::{SchemaCost, bytes_of, cost_of},
    metered::{Budget, Metered, MeteredValue, within},
};
use crate::{sync::lock, tool_result::prefix};

/// Maximum number of validation errors shown to the model.
const MAX_COMPLAINTS: usize = 3;

/// Maximum size of these errors, which quote the arguments.
const MAX_COMPLAINT_BYTES: usize = 1024;

/// Units of a validation on the runtime: some tenths of a millisecond.
const UNITS_AT_ONCE: usize = 20_000;

/// Maximum duration of a validation on the runtime.
const MAX_AT_ONCE: Duration = Duration::from_millis(5);

/// Units of a validation beside the runtime.
const UNITS_BESIDE: usize = 50_000_000;

/// Units for finding out what is wrong.
const UNITS_OF_ERRORS: usize = 1_000_000;

/// Maximum duration of a validation.
const DEADLINE: Duration = Duration::from_secs(1);

/// Maximum time that a validation waits for its place.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Schemas up to this size, without regular expressions, are compiled on the runtime.
const COMPILED_AT_ONCE: usize = 200;

/// Size of a compiled regular expression that is applied to texts of every length. A search visits
/// each part of it with each byte at worst.
const PATTERN_SIZE: usize = 8 * 1024;

/// Maximum size of a compiled regular expression.
const MAX_PATTERN_SIZE: usize = 1024 * 1024;

/// Maximum length of a text that such a large one is applied to.
const MAX_TEXT_OF_LARGE_PATTERN: usize = 4 * 1024;

/// Maximum size of what a search remembers.
const MAX_SEARCH_SIZE: usize = 256 * 1024;

/// Maximum estimated size of all compiled schemas that are kept.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

/// Places beside the runtime.
static PLACES: LazyLock<Semaphore> = LazyLock::new(|| {
    Semaphore::new(available_parallelism().map_or(1, NonZeroUsize::get).div_ceil(2))
});

static KEPT: LazyLock<Mutex<KeptSchemas>> = LazyLock::new(Mutex::default);

/// Adds the tools whose schemas are not accepted to `left_out`, and returns the others.
pub fn with_usable_schemas(
    mut tools: Vec<Arc<dyn Tool>>,
    left_out: &mut LeftOut,
) -> Vec<Arc<dyn Tool>> {
    tools.retain(|tool| {
        let checked = check_schema(&tool.spec().parameters);
        if let Err(error) = checked {
            left_out.add(&tool.spec().name, &WhyLeftOut::Schema(error.to_string()));
        }
        checked.is_ok()
    });
    tools
}

/// A schema that is ready for use. One that is not valid accepts everything: its tool has to check
/// its arguments itself.
pub(crate) struct CompiledSchema {
    validator: Option<Validator<Metered>>,
    /// Maximum length of a string that it reads.
    text: usize,
}

impl CompiledSchema {
    /// Compiles a schema of the operator's own.
    pub(crate) fn own(schema: &Value) -> Result<Arc<Self>, String> {
        let compiled = Self::linear(schema).or_else(|_| {
            // With look-around or back-references.
            let validator = jsonschema::options_for::<Metered>().build(schema);
            let validator = Some(validator.map_err(|error| error.to_string())?);
            Ok::<_, String>(Self { validator, text: usize::MAX })
        })?;
        Ok(Arc::new(compiled))
    }

    /// Compiles a schema of somebody else.
    fn foreign(schema: &Value, cost: SchemaCost) -> Self {
        let unused = Self { validator: None, text: usize::MAX };
        if cost.compiled.is_none() {
            warn!("schema not used to check arguments, as its references or patterns are unusual");
            return unused;
        }
        match within(Budget::UNLIMITED, || Self::linear(schema)) {
            Some(Ok(compiled)) => compiled,
            Some(Err(error)) => {
                let error = prefix(&error, MAX_COMPLAINT_BYTES);
                warn!(%error, "schema not used to check arguments, as it is not valid");
                unused
            }
            None => unused,
        }
    }

    /// Compiles a schema whose regular expressions take time proportional to the text.
    fn linear(schema: &Value) -> Result<Self, String> {
        let build = |size| {
            let patterns = PatternOptions::regex().size_limit(size).dfa_size_limit(MAX_SEARCH_SIZE);
            jsonschema::options_for::<Metered>().with_pattern_options(patterns).build(schema)
        };
        if let Ok(validator) = build(PATTERN_SIZE) {
            return Ok(Self { validator: Some(validator), text: usize::MAX });
        }
        let validator = build(MAX_PATTERN_SIZE).map_err(|error| error.to_string())?;
        Ok(Self { validator: Some(validator), text: MAX_TEXT_OF_LARGE_PATTERN })
    }

    /// Checks `value` if that takes little. Returns `None` if it takes more.
    fn check_at_once(&self, value: &Value) -> Option<Checked> {
        let budget = self.budget(UNITS_AT_ONCE, MAX_AT_ONCE);
        if self.accepts(value, budget)? {
            return Some(Checked::Fits);
        }
        self.complaints(value, budget).map(Checked::Misfit)
    }

    /// Checks `value` with all that a validation may use.
    fn check_in_time(&self, value: &Value) -> Checked {
        match self.accepts(value, self.budget(UNITS_BESIDE, DEADLINE)) {
            Some(true) => return Checked::Fits,
            Some(false) => {}
            None => return Checked::TooMuch,
        }
        let budget = self.budget(UNITS_OF_ERRORS, DEADLINE);
        let complaints = self.complaints(value, budget);
        let complaints = complaints.or_else(|| self.first_complaint(value, budget));
        Checked::Misfit(complaints.unwrap_or_else(|| "they do not fit the schema".to_owned()))
    }

    fn budget(&self, units: usize, time: Duration) -> Budget {
        Budget { units, text: self.text, deadline: Some(Instant::now() + time) }
    }

    fn accepts(&self, value: &Value, budget: Budget) -> Option<bool> {
        let Some(validator) = &self.validator else { return Some(true) };
        within(budget, || validator.is_valid(MeteredValue(value)))
    }

    fn complaints(&self, value: &Value, budget: Budget) -> Option<String> {
        let validator = self.validator.as_ref()?;
        within(budget, || {
            let errors = validator.iter_errors(MeteredValue(value)).take(MAX_COMPLAINTS);
            shortened(&errors.map(|error| complaint(&error)).collect::<Vec<_>>().join("; "))
        })
    }

    fn first_complaint(&self, value: &Value, budget: Budget) -> Option<String> {
        let validator = self.validator.as_ref()?;
        within(budget, || {
            let error = validator.validate(MeteredValue(value)).err()?;
            Some(shortened(&complaint(&error)))
        })?
    }
}

fn complaint(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    if path.is_empty() { error.to_string() } else { format!("at `{path}`: {error}") }
}

fn shortened(complaints: &str) -> String {
    let shown = prefix(complaints, MAX_COMPLAINT_BYTES);
    let more = if shown.len() < complaints.len() { "…" } else { "" };
    format!("{shown}{more}")
}

enum Checked {
    Fits,
    Misfit(String),
    TooMuch,
}

/// Checks `value` against a schema that somebody else wrote, and returns it, or what is wrong.
pub(crate) async fn checked(schema: &Value, value: Value) -> Result<Value, String> {
    checked_by(&compiled(schema).await?, value).await
}

/// Checks `value` and returns it, or what is wrong.
pub(crate) async fn checked_by(
    schema: &Arc<CompiledSchema>,
    value: Value,
) -> Result<Value, String> {
    let (value, checked) = if let Some(checked) = schema.check_at_once(&value) {
        (value, checked)
    } else {
        let schema = Arc::clone(schema);
        beside(move || {
            let checked = schema.check_in_time(&value);
            (value, checked)
        })
        .await?
    };
    match checked {
        Checked::Fits => Ok(value),
        Checked::Misfit(complaints) => Err(complaints),
        Checked::TooMuch => Err("the arguments are too large or too deeply nested to be checked \
                                 against the schema; send less"
            .to_owned()),
    }
}

/// Returns the compiled schema. It is compiled if it is not kept from before.
async fn compiled(schema: &Value) -> Result<Arc<CompiledSchema>, String> {
    let too_complex = |error: SchemaTooComplex| error.to_string();
    bytes_of(schema).map_err(too_complex)?;
    let hash: SchemaHash = Sha256::digest(schema.to_string()).into();
    if let Some(compiled) = lock(&KEPT).get(&hash) {
        return Ok(compiled);
    }
    let cost = cost_of(schema).map_err(too_complex)?;
    let is_small = cost.patterns == 0 && cost.compiled.is_none_or(|n| n <= COMPILED_AT_ONCE);
    let compiled = if is_small {
        CompiledSchema::foreign(schema, cost)
    } else {
        let schema = schema.clone();
        beside(move || CompiledSchema::foreign(&schema, cost)).await?
    };
    let compiled = Arc::new(compiled);
    lock(&KEPT).keep(hash, Arc::clone(&compiled), cost);
    Ok(compiled)
}

/// Does `work` in one of the few places beside the runtime. It has an end of its own, also if
/// nobody waits for it any more.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let busy = || "the server has too many arguments to check; try again".to_owned();
    let place = timeout(MAX_WAIT, PLACES.acquire()).await;
    let Ok(Ok(place)) = place else { return Err(busy()) };
    let done = spawn_blocking(move || {
        let done = work();
        drop(place);
        done
    });
    done.await.map_err(|error| {
        error!(%error, "check of arguments failed");
        busy()
    })
}

type SchemaHash = [u8; 32];

/// The compiled schemas that were added last.
#[derive(Default)]
struct KeptSchemas {
    by_hash: HashMap<SchemaHash, Arc<CompiledSchema>>,
    order: VecDeque<(SchemaHash, usize)>,
    n_bytes: usize,
}

impl KeptSchemas {
    fn get(&self, hash: &SchemaHash) -> Option<Arc<CompiledSchema>> {
        self.by_hash.get(hash).cloned()
    }

    fn keep(&mut self, hash: SchemaHash, schema: Arc<CompiledSchema>, cost: SchemaCost) {
        let n_bytes = size_of_compiled(cost);
        if self.by_hash.insert(hash, schema).is_some() {
            return;
        }
        self.order.push_back((hash, n_bytes));
        self.n_bytes += n_bytes;
        while self.n_bytes > MAX_KEPT_BYTES
            && let Some((oldest, n_bytes)) = self.order.pop_front()
        {
            self.by_hash.remove(&oldest);
            self.n_bytes -= n_bytes;
        }
    }
}

/// Returns about how much memory a compiled schema takes: a KiB for each part, and for each regular
/// expression its program and what searches remember.
fn size_of_compiled(cost: SchemaCost) -> usize {
    let patterns = cost.patterns * 2 * MAX_SEARCH_SIZE;
    1024 + cost.bytes + cost.compiled.map_or(0, |n| n * 1024 + patterns)
}

#[cfg(test)]
#[path = "schemas_tests.rs"]
mod tests;
