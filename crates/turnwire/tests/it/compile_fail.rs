//! Callbacks of another shape do not compile, and the compiler says what is wrong.

/// S0-8: closures with too few or too many arguments, or of another type.
/// S4-14: the old arguments of `on_assistant_message_added`.
/// S3-1: an `on_event` that is not async.
#[test]
fn s0_8_s4_14_callbacks_of_another_shape_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
