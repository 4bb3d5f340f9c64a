# Everyday commands. `just` lists them; `just check` is the gate.

[private]
default:
    @just --list

# The inner loop: formatting, Clippy, and the tests that need no server.
quick *arguments:
    cargo fmt --all
    RUSTC_WORKSPACE_WRAPPER=clippy-driver cargo nextest run --workspace \
        -E '(kind(lib) - package(turnwire-stores)) | package(turnwire-engine) | package(turnwire)' {{ arguments }}

# The whole gate.
check:
    .ci/run

# All tests that need no services, then the doc tests.
test *arguments:
    cargo nextest run --workspace {{ arguments }}
    cargo test --doc --workspace

# Formatting and Clippy.
tidy:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings

# Rewrites the goldens and the values in `expect![…]`. The diff is the review.
goldens:
    UPDATE_GOLDENS=1 UPDATE_EXPECT=1 cargo test --workspace

# The invariants over random scripts; the number of cases may be given.
properties cases="10000":
    TURNWIRE_CASES={{ cases }} cargo nextest run --package turnwire-engine --test invariants

# Changes the code in small ways and sees whether a test notices. Takes long.
mutants *arguments:
    cargo mutants -p turnwire-engine -p turnwire-surfaces {{ arguments }}

# Events per second and memory per run; the figures are in docs/performance.md.
bench *arguments:
    cargo bench --workspace {{ arguments }}

# Every program in examples/, checked against what it promises.
examples:
    scripts/examples

# Each requirement with its tests.
requirements *arguments:
    scripts/requirements {{ arguments }}

# Arrows between crates, licences, bans and sources.
house:
    scripts/direction
    cargo deny --locked check licenses bans sources

# Known vulnerabilities; needs the net.
advisories:
    scripts/advisories

# The documentation as users see it, opened in a browser.
doc:
    cargo doc --workspace --no-deps --open
